/* Preloaded into a process: keeps beside each file FILE.synced, its content when it was synced
   last. That is what a power failure may leave of it. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static void keep(int file) {
    char link[64], path[4096], copy[4200], buffer[65536];
    struct stat is;
    if (fstat(file, &is) || !S_ISREG(is.st_mode)) return;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size <= 0) return;
    path[size] = 0;
    snprintf(copy, sizeof copy, "%s.synced", path);
    int out = open(copy, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    off_t at = 0;
    while ((size = pread(file, buffer, sizeof buffer, at)) > 0) {
        if (write(out, buffer, size) != size) _exit(1);
        at += size;
    }
    close(out);
}

int fsync(int file) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    int result = real(file);
    keep(file);
    return result;
}

int fdatasync(int file) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    int result = real(file);
    keep(file);
    return result;
}
