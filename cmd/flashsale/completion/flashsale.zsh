#compdef flashsale
# zsh completion for flashsale:  source <(flashsale completion zsh)
_flashsale() {
	local line
	local -a found shown
	for line in "${(@f)$("${words[1]}" complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
		[[ -n $line ]] || continue
		found+=("${line%%$'\t'*}")
		shown+=("${line/$'\t'/  }")
	done
	if (( $#found )); then
		compadd -l -d shown -a found
	else
		_files
	fi
}
compdef _flashsale flashsale
