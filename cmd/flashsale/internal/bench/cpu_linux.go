package bench

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of the times in /proc: USER_HZ, which is 100 a second
// wherever Go runs.
const tick = 10 * time.Millisecond

// cpuTime is what the process has used so far, in user and kernel mode, all
// its threads together.
func cpuTime(pid int) (time.Duration, bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, false
	}
	return parseStat(string(stat))
}

// parseStat adds fields 14 and 15 of proc_pid_stat(5). The second field is the
// program's name in parentheses and may hold any character: what follows the
// last one counts.
func parseStat(stat string) (time.Duration, bool) {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0, false
	}
	user, err1 := strconv.ParseInt(fields[11], 10, 64)
	kernel, err2 := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+kernel) * tick, err1 == nil && err2 == nil
}
