# fish completion for flashsale:  flashsale completion fish | source
function __flashsale_words
	set -l words (commandline -opc) (commandline -ct)
	$words[1] complete -- $words[2..] 2>/dev/null
end
complete -c flashsale -f -n 'test -n "$(__flashsale_words)"' -a '(__flashsale_words)'
