// Preloaded into redis-server. The first eight bytes of the file FLASHSALE_CLOCK are the
// offset of the server's wall clock, in seconds. The monotonic clock does not change.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *offset;

__attribute__((constructor)) static void share(void) {
	const char *name = getenv("FLASHSALE_CLOCK");
	int file = name ? open(name, O_RDONLY) : -1;
	void *shared = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
	if (shared != MAP_FAILED) offset = shared;
	if (file >= 0) close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
	int failed = syscall(SYS_clock_gettime, clock, now);
	if (!failed && offset && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += *offset;
	return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
	struct timespec exact;
	(void)zone;
	clock_gettime(CLOCK_REALTIME, &exact);
	now->tv_sec = exact.tv_sec, now->tv_usec = exact.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *to) {
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	if (to) *to = now.tv_sec;
	return now.tv_sec;
}
