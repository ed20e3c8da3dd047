"""Programs whose words, after their own options, are a command, and how they read their options."""

from __future__ import annotations

import re
from collections.abc import Mapping

from .options import Options, options

LAUNCHERS: Mapping[str, Options] = {
    "nohup": options(),
    "timeout": options("fpv", "ks", "foreground preserve-status verbose kill-after= signal=", operands=1),
    "nice": options("", "n", "adjustment=", numbers=True),
    "ionice": options("t", "cn", "ignore class= classdata="),
    "setsid": options("cfw", "", "ctty fork wait"),
    "stdbuf": options("", "ioe", "input= output= error="),
    "chroot": options("", "", "skip-chdir userspec= groups=", operands=1),
    "doas": options("Ln", "aCu"),
    "builtin": options(),
    "exec": options("cl", "a"),
    "busybox": options("", "", "list help"),
    "toybox": options("", "", "long help"),
    "coproc": options(),
    "noglob": options(),
    "nocorrect": options(),
    "-": options(),
    "repeat": options(operands=1),
    "strace": options(
        "cCdfFhikKnNqrtTvVwxyYzZDA",
        "abeIoOpPsSuUEX",
        """
            follow-forks summary-only summary quiet relative-timestamps syscall-times
            absolute-timestamps seccomp-bpf
            """
        """
            output-separately decode-fds decode-pids string-limit= output= trace= signal= status=
            attach= user= env=
            """
        "trace-path= argv0= abbrev= verbose= raw= read= write= inject= fault= kvm=",
    ),
    "ltrace": options("cCfhiLrStVb", "aADeFlnopsuwx", "output= library="),
    "chrt": options(
        "abefhimoprRdvV",
        "TPD",
        """
            all-tasks batch deadline fifo idle max other pid rr reset-on-fork verbose sched-runtime=
            sched-period=
            """
        "sched-deadline=",
        operands=1,
    ),
    "taskset": options("acphV", "", "all-tasks pid cpu-list", operands=1),
    "setarch": options(
        "BFILRSTXZv3h", "", "32bit addr-no-randomize uname-2.6 verbose list 4gb 3gb mmap-page-zero"
    ),
    "unshare": options(
        "muinpUCTfrcTh",
        "SGRwl",
        """
            mount uts ipc net pid user cgroup time fork map-root-user map-current-user map-auto
            mount-proc kill-child
            """
        """
            keep-caps propagation= setgroups= root= wd= setuid= setgid= map-user= map-group= map-users=
            map-groups=
            """
        "monotonic= boottime= load-interp=",
        optional="",
    ),
    "nsenter": options(
        "aFZeckh",
        "tSGW",
        """
            all no-fork env join-cgroup keep-caps preserve-credentials target= setuid= setgid= mount uts
            ipc net pid
            """
        """
            user cgroup time root wd wdns= user-parent mount= uts= ipc= net= pid= user= cgroup= time=
            root= wd=
            """,
        optional="muinpUCTrw",
    ),
    "setpriv": options(
        "dh",
        "",
        """
            dump no-new-privs nnp clear-groups keep-groups init-groups reset-env ambient-caps= inh-caps=
            bounding-set=
            """
        "ruid= euid= reuid= rgid= egid= regid= groups= securebits= pdeathsig= ptracer= selinux-label= "
        "apparmor-profile= landlock-access= landlock-rule= seccomp-filter=",
    ),
    "shx": options(),
    "corepack": options(),
    "s6-setsid": options("bfgids"),
    "s6-softlimit": options("", "", loose=True),
    "lckdo": options("wesxqtW", "E", operands=1),
    "zrun": options(),
    "flatpak-spawn": options("", "", loose=True),
    "msgfilter": options("", "", loose=True),
    "msgexec": options("", "", loose=True),
    "run0": options("", "uD", loose=True),
    "systemd-socket-activate": options(
        "adh", "lE", "listen= datagram seqpacket accept inetd setenv= fdname="
    ),
    "uclampset": options("asR", "mMp", "all-tasks system reset-on-fork pid="),
    "memusage": options("utT", "npdb", "unbuffered no-timer total title= progname= png= data= buffer="),
    "sotruss": options("fe", "FTo", "follow exit from= to= output="),
    "xtrace": options("", "", loose=True),
    "pg_virtualenv": options("", "", loose=True),
    "logsave": options("asv", operands=1),
    "switch_root": options("", "", loose=True),
    "fstab-decode": options(),
    "debconf": options("", "of", "owner= frontend= priority= terse"),
    "gpg-agent": options("", "", loose=True),
    "agetty": options("", "", loose=True),
    "getty": options("", "", loose=True),
    "ldd": options("vdru"),
    "fakeroot-sysv": options("uhvn", "lsib", "unknown-is-real lib= faked= help"),
    "fakeroot-tcp": options("uhvn", "lsib", "unknown-is-real lib= faked= help"),
    "fakeroot": options("uhvn", "lsib", "unknown-is-real lib= faked= help"),
    "xvfb-run": options(
        "alh",
        "efnpsw",
        "auto-servernum listen-tcp error-file= auth-file= server-num= server-args= wait= xauth-protocol=",
    ),
    "dbus-run-session": options("", "", "config-file= dbus-daemon="),
    "dbus-launch": options(
        "", "", "exit-with-session exit-with-x11 sh-syntax csh-syntax auto-syntax autolaunch="
    ),
    "ssh-agent": options("cDdksT", "aEOPt"),
    "systemd-run": options(
        "dGPqrStVhu",
        "EHMpu",
        """
            user system scope no-block wait pty pipe quiet collect shell remain-after-exit same-dir
            no-ask-password
            """
        """
            unit= property= description= slice= uid= gid= nice= working-directory= setenv= on-active=
            on-boot=
            """
        "on-calendar= host= machine= service-type= path-property= timer-property= expand-environment=",
    ),
    "systemd-inhibit": options("", "", "what= who= why= mode= list no-pager no-legend"),
    "systemd-cat": options("", "tp", "identifier= priority= stderr-priority= level-prefix="),
    "numactl": options(
        "asHhl",
        "iNmCpP",
        "all show hardware localalloc interleave= cpunodebind= membind= physcpubind= preferred=",
    ),
    "cgexec": options("", "g", "sticky"),
    "eatmydata": options(),
    "faketime": options("mf", "", "exclude-monotonic", operands=1),
    "tini": options("svwgh", "pe"),
    "dumb-init": options("csv", "r", "single-child rewrite= verbose"),
    "catatonit": options("P", ""),
    "gosu": options(operands=1),
    "su-exec": options(operands=1),
    "setuidgid": options(operands=1),
    "chpst": options("vP012", "uUb/eCnmdopfclr"),
    "envdir": options(operands=1),
    "softlimit": options("", "mdsloafcrtp"),
    "unbuffer": options("p"),
    "rlwrap": options("cirnR", "abCfgHlmpqsStzw", "always-readline case-insensitive remember"),
    "catchsegv": options(),
    "torsocks": options("di", "upaP"),
    "torify": options(),
    "proxychains": options("q", "f"),
    "proxychains4": options("q", "f"),
    "pkexec": options("", "u", "user= disable-internal-agent keep-cwd"),
    "sem": options("u", "j", "fg wait bg id= jobs= semaphorename="),
    "cpulimit": options("bzifv", "lpcP", "background lazy foreground include-children limit= pid= path="),
    "trickle": options("hVvs", "dunwtlLP"),
    "pee": options(),
    "chronic": options("vet"),
    "ifne": options("n"),
    "vipe": options(),
    "caffeinate": options("disum", "tw"),
    "gtimeout": options(
        "fpv", "ks", "foreground preserve-status verbose kill-after= signal=", operands=1
    ),
    "gnice": options("", "n", "adjustment=", numbers=True),
    "genv": options("0iv", "uCS", assignments=True),
    "runcon": options("c", "utrl", "compute type= user= role= range=", operands=1),
    "aa-exec": options("ivdh", "pn", "profile= namespace= immediate verbose debug"),
    "valgrind": options("hqv", "", loose=True),
    "heaptrack": options("r", "o", "raw record-only output= interpret"),
    "bwrap": options("", "", loose=True),
    "firejail": options("", "", loose=True),
    "proot": options("", "rbwqkv", loose=True),
    "perf": options("", "", loose=True),
    "cross-env": options(assignments=True),
    "cross-env-shell": options(assignments=True),
    "dotenv": options("", "efv", loose=True),
    "dotenvx": options("", "", loose=True),
    "aws-vault": options("", "", loose=True),
    "doppler": options("", "", loose=True),
    "op": options("", "", loose=True),
    "prlimit": options("", "", loose=True),
    "schedtool": options("", "", loose=True),
    "daemon": options("", "", loose=True),
    "daemonize": options("", "", loose=True),
    "capsh": options("", "", loose=True),
    "jexec": options("", "", loose=True),
    "lxc": options("", "", loose=True),
    "lxc-attach": options("", "", loose=True),
    "systemd-nspawn": options("", "", loose=True),
    "s6-setuidgid": options(operands=1),
    "with-contenv": options(),
    "minijail0": options("", "", loose=True),
    "nsjail": options("", "", loose=True),
    "gdbserver": options("", "", loose=True),
    "rr": options("", "", loose=True),
    "uftrace": options("", "", loose=True),
    "bpftrace": options("", "", loose=True),
    "qemu-x86_64": options("", "", loose=True),
    "qemu-aarch64": options("", "", loose=True),
    "wine": options(),
    "winpty": options("", "", loose=True),
    "authbind": options("", "", "deep depth="),
    "fakechroot": options("se", "bc", "use-system-libs lib= elfloader= environment= config-dir="),
    "tsocks": options(),
    "vglrun": options("", "", loose=True),
    "optirun": options("", "", loose=True),
    "primusrun": options(),
    "gamemoderun": options(),
    "nsys": options("", "", loose=True),
    "ncu": options("", "", loose=True),
    "mpirun": options("", "", loose=True),
    "mpiexec": options("", "", loose=True),
    "srun": options("", "", loose=True),
    "torchrun": options("", "", loose=True),
    "accelerate": options("", "", loose=True),
    "direnv": options("", "", loose=True),
    "mise": options("", "", loose=True),
    "asdf": options("", "", loose=True),
    "rbenv": options("", "", loose=True),
    "pyenv": options("", "", loose=True),
    "nodenv": options("", "", loose=True),
    "rustup": options("", "", loose=True),
    "conda": options("", "", loose=True),
    "mamba": options("", "", loose=True),
    "micromamba": options("", "", loose=True),
    "entr": options("acdnprsxz"),
    "watchexec": options("", "", loose=True),
    "nodemon": options("", "", loose=True),
}

SUBCOMMANDS: Mapping[str, tuple[str, ...]] = {
    "perf": ("stat", "record", "trace"),
    "op": ("run",),
    "doppler": ("run",),
    "dotenvx": ("run",),
    "dotenv": ("run", "--"),
    "aws-vault": ("exec",),
    "lxc": ("exec",),
    "direnv": ("exec",),
    "mise": ("exec", "x"),
    "asdf": ("exec",),
    "rbenv": ("exec",),
    "pyenv": ("exec",),
    "nodenv": ("exec",),
    "rustup": ("run",),
    "conda": ("run",),
    "mamba": ("run",),
    "micromamba": ("run",),
    "rr": ("record",),
    "uftrace": ("record", "live"),
    "nsys": ("profile", "launch"),
    "accelerate": ("launch",),
    "poetry": ("run",),
    "pipenv": ("run",),
    "uv": ("run",),
    "pdm": ("run",),
    "hatch": ("run",),
    "rye": ("run",),
    "pixi": ("run",),
    "bundle": ("exec",),
    "npm": ("exec", "x"),
    "pnpm": ("exec", "dlx"),
    "yarn": ("exec", "dlx"),
    "lerna": ("exec",),
    "bun": ("x",),
    "docker": ("exec", "run"),
    "podman": ("exec", "run", "unshare"),
    "nerdctl": ("exec", "run"),
    "docker-compose": ("exec", "run"),
    "kubectl": ("exec", "run", "debug"),
    "oc": ("exec", "rsh", "run"),
    "k3s": ("kubectl",),
    "minikube": ("ssh", "kubectl"),
    "vagrant": ("ssh",),
    "multipass": ("exec",),
    "heroku": ("run",),
    "fly": ("ssh",),
    "flyctl": ("ssh",),
    "gcloud": ("compute",),
    "machinectl": ("shell",),
    "ip": ("netns", "vrf"),
    "distrobox": ("enter",),
    "toolbox": ("run",),
    "flatpak": ("run",),
    "snap": ("run",),
    "nix": ("develop", "shell", "run"),
    "vercel": ("exec",),
    "coverage": ("run",),
    "tsh": ("ssh",),
    "sops": ("exec-env", "exec-file"),
    "chamber": ("exec",),
    "infisical": ("run",),
    "devcontainer": ("exec",),
    "ansible": (),
    "salt": (),
    "pdsh": (),
    "mosh": (),
    "rsh": (),
    "wsl": (),
    "wsl.exe": (),
    "screen": (),
    "cargo": ("watch",),
    "tox": ("exec",),
    "guix": ("shell", "environment"),
    "devbox": ("run",),
    "adb": ("shell",),
    "bazel": ("run",),
}
"""Programs that run what follows one of these words; those without any run what follows whatever."""

ARCHITECTURES = re.compile(r"linux32|linux64|i[3-6]86|x86_64|uname26|ppc(?:64)?(?:le)?|aarch64|arch")
LOADER = re.compile(r"ld(?:-linux|-musl)?[\w-]*\.so(?:\.\d+)?|ld-[\d.]+\.so|ld\.so")
