/* A double for Pyxis, NVIDIA's SPANK plugin that runs a job step in a container: for tests, where no container
 * runtime can be had. It is no part of what Trainwright installs, and shares no code with Pyxis.
 *
 * What it does
 *   - registers Pyxis's options with srun, sbatch and salloc, and refuses mounts that Pyxis refuses;
 *   - writes what a step was given, one JSON line for each node of the step, to the file `record=`;
 *   - makes one "container" for each step and node, which the step's tasks share: a mount namespace of their own with
 *     the host's root below, the image directory's files above, writes in memory, the step's mounts (rw or ro) on top;
 *   - gives tasks the image's environment (`etc/environment` in the image directory, NAME=VALUE lines) as Pyxis does:
 *     the image wins, except over names of --container-env that are set; LANG, LANGUAGE and LC_ALL are unset unless
 *     named; PYTORCH_VERSION in the environment brings RANK and LOCAL_RANK;
 *   - changes to --container-workdir, else to `/`.
 *
 * What it does not do
 *   - images are directories on the node: no squashfs, no registry, nothing is imported, and a missing one is an error;
 *   - the host's files stay visible, but for the directories named by `hide=`: a program that a real image lacks may be
 *     found here;
 *   - no user namespace and no remapped root: jobs are root's;
 *   - no entrypoint, no enroot hooks, no home mount: those options are recorded only; --container-readonly likewise;
 *   - --container-name and --container-save are refused, PYXIS_* variables are not read.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <mntent.h>
#include <sched.h>
#include <slurm/spank.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

SPANK_PLUGIN(pyxis, 1);

enum { IMAGE, MOUNTS, WORKDIR, ENV, NAME, SAVE, HOME, NO_HOME, REMAP, NO_REMAP, ENTRYPOINT, NO_ENTRYPOINT,
       ENTRYPOINT_LOG, WRITABLE, READONLY, OPTIONS };

static const struct { const char *name, *argument; } options[OPTIONS] = {
    [IMAGE] = {"container-image", "DIRECTORY"},
    [MOUNTS] = {"container-mounts", "SRC[:DST[:FLAGS]],..."},
    [WORKDIR] = {"container-workdir", "PATH"},
    [ENV] = {"container-env", "NAME,..."},
    [NAME] = {"container-name", "NAME"},
    [SAVE] = {"container-save", "PATH"},
    [HOME] = {"container-mount-home", NULL},
    [NO_HOME] = {"no-container-mount-home", NULL},
    [REMAP] = {"container-remap-root", NULL},
    [NO_REMAP] = {"no-container-remap-root", NULL},
    [ENTRYPOINT] = {"container-entrypoint", NULL},
    [NO_ENTRYPOINT] = {"no-container-entrypoint", NULL},
    [ENTRYPOINT_LOG] = {"container-entrypoint-log", NULL},
    [WRITABLE] = {"container-writable", NULL},
    [READONLY] = {"container-readonly", NULL},
};

static char *given[OPTIONS];      /* an option's value, "" for a switch, NULL where it was not given */
static const char *record, *scratch;
static const char *hidden[16];
static int hidden_count;
static int container = -1;        /* the mount namespace of this node's tasks */
static char *problem;             /* the last error, shared with the child that builds the container */

static int fail(const char *format, ...)
{
    char text[2 * PATH_MAX];
    va_list words;
    va_start(words, format);
    vsnprintf(text, sizeof text, format, words);
    va_end(words);
    slurm_error("pyxis double: %s", text);
    if (problem)
        snprintf(problem, sizeof text, "%s", text);
    return -1;
}

/* ------------------------------------------------------------------------------------------------------ options */

static int check_flags(const char *mount, char *flags)
{
    static const char *known[] = {"ro", "rw", "bind", "rbind", "private", "rprivate", "shared", "rshared", "slave",
                                  "rslave", "unbindable", "runbindable", NULL};
    for (char *rest = NULL, *flag = strtok_r(flags, "+", &rest); flag; flag = strtok_r(NULL, "+", &rest)) {
        int i = 0;
        while (known[i] && strcmp(known[i], flag))
            i++;
        if (!known[i])
            return fail("--container-mounts: invalid flag %s in %s", flag, mount);
    }
    return 0;
}

/* SRC[:DST[:FLAGS]] in place; the pointers point into `mount`. */
static int split_mount(char *mount, char **source, char **target, char **flags)
{
    char whole[PATH_MAX];
    snprintf(whole, sizeof whole, "%s", mount);
    *source = strsep(&mount, ":");
    *target = strsep(&mount, ":");
    *flags = strsep(&mount, ":");
    if (mount)
        return fail("--container-mounts: more than three parts in %s", whole);
    if (!*target)
        *target = *source;
    if (!(**source == '/' || !strcmp(*source, "tmpfs")))
        return fail("--container-mounts: source must be absolute or tmpfs (the double knows no other): %s", whole);
    if (**target != '/')
        return fail("--container-mounts: target must be absolute: %s", whole);
    return 0;
}

static int check_mounts(const char *value)
{
    char *list = strdup(value), *rest = list, *mount;
    int failed = 0;
    while (!failed && (mount = strsep(&rest, ","))) {
        char *source, *target, *flags;
        failed = split_mount(mount, &source, &target, &flags) || (flags && check_flags(mount, flags));
    }
    free(list);
    return failed ? -1 : 0;
}

static int take(int which, const char *value, int remote)
{
    (void)remote;
    if (which == NAME || which == SAVE)
        return fail("--%s is not in the test double", options[which].name);
    if (which == MOUNTS && check_mounts(value))
        return -1;
    free(given[which]);
    given[which] = strdup(value ? value : "");
    return 0;
}

/* ------------------------------------------------------------------------------------------------------- record */

static void write_json_string(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fprintf(out, "\\%c", *text);
        else if ((unsigned char)*text < 0x20)
            fprintf(out, "\\u%04x", *text);
        else
            fputc(*text, out);
    }
    fputc('"', out);
}

/* One write to a file opened for appending: lines of two nodes do not mix. */
static int write_record(spank_t spank)
{
    uint32_t job = 0, step = 0, node = 0;
    spank_get_item(spank, S_JOB_ID, &job);
    spank_get_item(spank, S_JOB_STEPID, &step);
    spank_get_item(spank, S_JOB_NODEID, &node);
    char *line = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&line, &size);
    fprintf(out, "{\"job\": %u, \"step\": %d, \"node\": %u, \"options\": {", job, (int)step, node);
    for (int i = 0, before = 0; i < OPTIONS; i++) {
        if (!given[i])
            continue;
        fprintf(out, "%s\"%s\": ", before++ ? ", " : "", options[i].name);
        if (options[i].argument)
            write_json_string(out, given[i]);
        else
            fputs("true", out);
    }
    fputs("}}\n", out);
    fclose(out);
    int file = open(record, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    int failed = file < 0 || write(file, line, size) != (ssize_t)size;
    if (file >= 0)
        close(file);
    free(line);
    return failed ? fail("cannot write %s: %s", record, strerror(errno)) : 0;
}

/* ---------------------------------------------------------------------------------------------------- container */

static char **image_environment;  /* NAME=VALUE lines of the image, ended by NULL */

static int make_parents(const char *path)
{
    char part[PATH_MAX];
    snprintf(part, sizeof part, "%s", path);
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        if (mkdir(part, 0755) && errno != EEXIST)
            return fail("mkdir %s: %s", part, strerror(errno));
        *slash = '/';
    }
    return 0;
}

/* Make `target`, a directory or a file as its source is. */
static int make_target(const char *target, int directory)
{
    if (make_parents(target))
        return -1;
    if (directory)
        return mkdir(target, 0755) && errno != EEXIST ? fail("mkdir %s: %s", target, strerror(errno)) : 0;
    int file = open(target, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    return file < 0 ? fail("create %s: %s", target, strerror(errno)) : close(file);
}

static int is_below(const char *path, const char *directory)
{
    size_t length = strlen(directory);
    return !strncmp(path, directory, length) && (path[length] == '/' || !path[length]);
}

static int copy_image(const char *image, const char *upper)
{
    char files[PATH_MAX];
    snprintf(files, sizeof files, "%s/.", image);
    pid_t copy = fork();
    if (!copy) {
        execl("/bin/cp", "cp", "-a", files, upper, (char *)NULL);
        _exit(127);
    }
    int status = -1;
    if (copy < 0 || waitpid(copy, &status, 0) < 0 || status)
        return fail("cannot copy the image %s", image);
    return chmod(upper, 0755) ? fail("chmod %s: %s", upper, strerror(errno)) : 0;
}

/* An overlay holds one file system: whatever else the host has mounted is bound into it. */
static int bind_host_mounts(const char *root)
{
    char *done[256], target[PATH_MAX];
    int count = 0;
    FILE *table = setmntent("/proc/self/mounts", "re");
    if (!table)
        return fail("/proc/self/mounts: %s", strerror(errno));
    for (struct mntent *entry; (entry = getmntent(table)) && count < 256;) {
        struct stat about;
        int seen = !strcmp(entry->mnt_dir, "/") || is_below(entry->mnt_dir, scratch);
        for (int i = 0; i < count && !seen; i++)
            seen = is_below(entry->mnt_dir, done[i]);
        if (seen || stat(entry->mnt_dir, &about))
            continue;
        done[count++] = strdup(entry->mnt_dir);
        snprintf(target, sizeof target, "%s%s", root, entry->mnt_dir);
        if (make_target(target, S_ISDIR(about.st_mode)) || mount(entry->mnt_dir, target, NULL, MS_BIND | MS_REC, NULL))
            return fail("bind %s: %s", target, strerror(errno));
    }
    endmntent(table);
    return 0;
}

/* In the container's root already: the source was opened outside, so that no link inside can lead a target out. */
static int add_mount(const char *source, int opened, const char *target, const char *flags)
{
    char from[64];
    struct stat about;
    if (opened < 0)
        return make_target(target, 1) || mount("tmpfs", target, "tmpfs", 0, NULL) ? fail("tmpfs on %s", target) : 0;
    snprintf(from, sizeof from, "/proc/self/fd/%d", opened);
    if (fstat(opened, &about) || make_target(target, S_ISDIR(about.st_mode)))
        return -1;
    if (mount(from, target, NULL, MS_BIND | MS_REC, NULL))
        return fail("mount %s on %s: %s", source, target, strerror(errno));
    int readonly = 0;
    for (const char *flag = flags; flag; flag = strchr(flag, '+'), flag = flag ? flag + 1 : NULL)
        readonly |= !strncmp(flag, "ro", 2) && (!flag[2] || flag[2] == '+');
    if (readonly && mount(NULL, target, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL))
        return fail("read-only %s: %s", target, strerror(errno));
    return 0;
}

static int add_mounts(const char *root)
{
    struct { char *source, *target, *flags; int opened; } mounts[256];
    int count = 0;
    char *list = strdup(given[MOUNTS] ? given[MOUNTS] : ""), *spec;
    while ((spec = strsep(&list, ",")) && *spec && count < 256) {
        if (split_mount(spec, &mounts[count].source, &mounts[count].target, &mounts[count].flags))
            return -1;
        const char *source = mounts[count].source;
        mounts[count].opened = *source == '/' ? open(source, O_PATH | O_CLOEXEC) : -1;
        if (*source == '/' && mounts[count].opened < 0)
            return fail("mount source %s: %s", source, strerror(errno));
        count++;
    }
    if (chroot(root) || chdir("/"))
        return fail("chroot %s: %s", root, strerror(errno));
    for (int i = 0; i < count; i++)
        if (add_mount(mounts[i].source, mounts[i].opened, mounts[i].target, mounts[i].flags))
            return -1;
    return 0;
}

/* In a process of its own, whose mount namespace becomes the container's. */
static int build(const char *image)
{
    char upper[PATH_MAX], work[PATH_MAX], root[PATH_MAX], layers[3 * PATH_MAX], cover[PATH_MAX];
    snprintf(upper, sizeof upper, "%s/upper", scratch);
    snprintf(work, sizeof work, "%s/work", scratch);
    snprintf(root, sizeof root, "%s/root", scratch);
    snprintf(layers, sizeof layers, "lowerdir=/,upperdir=%s,workdir=%s", upper, work);
    if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
        return fail("no mount namespace: %s", strerror(errno));
    if (mount("tmpfs", scratch, "tmpfs", 0, NULL) || mkdir(upper, 0755) || mkdir(work, 0755) || mkdir(root, 0755))
        return fail("%s: %s", scratch, strerror(errno));
    if (copy_image(image, upper))
        return -1;
    if (mount("overlay", root, "overlay", 0, layers))
        return fail("overlay on %s: %s", root, strerror(errno));
    if (bind_host_mounts(root))
        return -1;
    for (int i = 0; i < hidden_count; i++) {
        snprintf(cover, sizeof cover, "%s%s", root, hidden[i]);
        if (!access(cover, F_OK) && mount("tmpfs", cover, "tmpfs", 0, "mode=0755"))
            return fail("hide %s: %s", hidden[i], strerror(errno));
    }
    return add_mounts(root);
}

static int read_image_environment(const char *image)
{
    char path[PATH_MAX], *line = NULL;
    size_t size = 0, count = 0;
    image_environment = calloc(1, sizeof *image_environment);
    snprintf(path, sizeof path, "%s/etc/environment", image);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    for (ssize_t length; (length = getline(&line, &size, file)) > 0;) {
        line[strcspn(line, "\n")] = 0;
        if (!strchr(line, '='))
            continue;
        image_environment = realloc(image_environment, (count + 2) * sizeof *image_environment);
        image_environment[count++] = strdup(line);
        image_environment[count] = NULL;
    }
    fclose(file);
    free(line);
    return 0;
}

/* Hold the namespace of a child that has built the container; the child may then go. */
static int make_container(const char *image)
{
    int ready[2], go[2];
    char built = 0, path[64];
    if (access(image, R_OK | X_OK))
        return fail("no image directory %s: %s", image, strerror(errno));
    if (pipe2(ready, O_CLOEXEC) || pipe2(go, O_CLOEXEC))
        return fail("pipe: %s", strerror(errno));
    pid_t child = fork();
    if (!child) {
        close(go[1]);
        built = !build(image);
        if (write(ready[1], &built, 1) != 1 || read(go[0], &built, 1))
            _exit(1);
        _exit(0);
    }
    close(ready[1]);
    close(go[0]);
    if (child > 0 && read(ready[0], &built, 1) == 1 && built) {
        snprintf(path, sizeof path, "/proc/%d/ns/mnt", child);
        container = open(path, O_RDONLY | O_CLOEXEC);
    }
    close(go[1]);
    close(ready[0]);
    if (child > 0)
        waitpid(child, NULL, 0);
    return container < 0 ? -1 : read_image_environment(image);
}

/* -------------------------------------------------------------------------------------------------- environment */

static int is_set(spank_t spank, const char *name)
{
    char value[1];
    spank_err_t answer = spank_getenv(spank, name, value, sizeof value);
    return answer == ESPANK_SUCCESS || answer == ESPANK_NOSPACE;
}

static int is_kept(const char *name)
{
    char *list = strdup(given[ENV] ? given[ENV] : ""), *rest = list, *one;
    int found = 0;
    while (!found && (one = strsep(&rest, ",")))
        found = !strcmp(one, name);
    free(list);
    return found;
}

static int apply_environment(spank_t spank)
{
    static const char *locale[] = {"LANG", "LANGUAGE", "LC_ALL"};
    for (int i = 0; i < 3; i++)
        if (!is_kept(locale[i]))
            spank_unsetenv(spank, locale[i]);
    for (char **line = image_environment; line && *line; line++) {
        char *name = strndup(*line, strcspn(*line, "="));
        if (!(is_kept(name) && is_set(spank, name)) && spank_setenv(spank, name, strchr(*line, '=') + 1, 1))
            return fail("cannot set %s", name);
        free(name);
    }
    if (is_set(spank, "PYTORCH_VERSION")) {
        uint32_t rank = 0;
        int local = 0;
        char text[16];
        spank_get_item(spank, S_TASK_GLOBAL_ID, &rank);
        spank_get_item(spank, S_TASK_ID, &local);
        snprintf(text, sizeof text, "%u", rank);
        spank_setenv(spank, "RANK", text, 1);
        snprintf(text, sizeof text, "%d", local);
        spank_setenv(spank, "LOCAL_RANK", text, 1);
    }
    return 0;
}

/* -------------------------------------------------------------------------------------------------------- hooks */

int slurm_spank_init(spank_t spank, int count, char **words)
{
    for (int i = 0; i < count; i++) {
        if (!strncmp(words[i], "record=", 7))
            record = strdup(words[i] + 7);
        else if (!strncmp(words[i], "scratch=", 8))
            scratch = strdup(words[i] + 8);
        else if (!strncmp(words[i], "hide=", 5) && hidden_count < 16)
            hidden[hidden_count++] = strdup(words[i] + 5);
        else
            return fail("unknown word in plugstack.conf: %s", words[i]);
    }
    if (!record || !scratch)
        return fail("record= and scratch= are needed in plugstack.conf");
    void *shared = mmap(NULL, 2 * PATH_MAX, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return fail("no memory");
    problem = shared;
    spank_context_t context = spank_context();
    if (context != S_CTX_LOCAL && context != S_CTX_ALLOCATOR && context != S_CTX_REMOTE)
        return 0;
    for (int i = 0; i < OPTIONS; i++) {
        struct spank_option option = {
            .name = (char *)options[i].name,
            .arginfo = (char *)options[i].argument,
            .usage = "[pyxis double] see Pyxis",
            .has_arg = options[i].argument != NULL,
            .val = i,
            .cb = take,
        };
        if (spank_option_register(spank, &option) != ESPANK_SUCCESS)
            return fail("cannot register --%s", options[i].name);
    }
    return 0;
}

/* Once for each node of a step, as root. What fails here is told by the tasks, as Pyxis does: srun then sees it. */
int slurm_spank_init_post_opt(spank_t spank, int count, char **words)
{
    (void)count, (void)words;
    if (spank_context() != S_CTX_REMOTE)
        return 0;
    int any = 0;
    for (int i = 0; i < OPTIONS; i++)
        any |= given[i] != NULL;
    if (any && write_record(spank))
        return -1;
    if (given[IMAGE])
        make_container(given[IMAGE]);
    return 0;
}

/* The last hook before the task's program starts, as the user: after the node has changed to the job's directory, which
 * the container may not have. */
int slurm_spank_task_init(spank_t spank, int count, char **words)
{
    (void)count, (void)words;
    char root[PATH_MAX];
    if (!given[IMAGE])
        return 0;
    if (container < 0)
        return fail("%s", problem);
    const char *directory = given[WORKDIR] ? given[WORKDIR] : "/";
    snprintf(root, sizeof root, "%s/root", scratch);
    if (setns(container, CLONE_NEWNS) || chroot(root) || chdir("/"))
        return fail("cannot enter the container: %s", strerror(errno));
    if (chdir(directory))
        return fail("couldn't chdir to %s: %s", directory, strerror(errno));
    return apply_environment(spank);
}
