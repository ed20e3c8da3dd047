"""Programs whose words, after their own options, are a command, and the syntax of their options."""

from __future__ import annotations

import re
from collections.abc import Mapping

from .options import Options, by_name, options

LAUNCHERS: Mapping[str, Options] = by_name(
    {
        """
        nohup builtin coproc noglob nocorrect - shx corepack zrun fstab-decode eatmydata catchsegv
        torify pee vipe with-contenv wine tsocks primusrun gamemoderun
        """: options(),
        "timeout gtimeout": options(
            "fpv", "ks", "foreground preserve-status verbose kill-after= signal=", operands=1
        ),
        "nice gnice": options("", "n", "adjustment=", numbers=True),
        "ionice": options("t", "cn", "ignore class= classdata="),
        "setsid": options("cfw", "", "ctty fork wait"),
        "stdbuf": options("", "ioe", "input= output= error="),
        "chroot": options("", "", "skip-chdir userspec= groups=", operands=1),
        "doas": options("Ln", "aCu"),
        "exec": options("cl", "a"),
        "busybox": options("", "", "list help"),
        "toybox": options("", "", "long help"),
        "repeat gosu su-exec setuidgid envdir s6-setuidgid": options(operands=1),
        "strace": options(
            "cCdfFhikKnNqrtTvVwxyYzZDA",
            "abeIoOpPsSuUEX",
            """
            follow-forks summary-only summary quiet relative-timestamps syscall-times
            absolute-timestamps seccomp-bpf output-separately decode-fds decode-pids
            string-limit= output= trace= signal= status= attach= user= env= trace-path= argv0=
            abbrev= verbose= raw= read= write= inject= fault= kvm=
            """,
        ),
        "ltrace": options("cCfhiLrStVb", "aADeFlnopsuwx", "output= library="),
        "chrt": options(
            "abefhimoprRdvV",
            "TPD",
            """
            all-tasks batch deadline fifo idle max other pid rr reset-on-fork verbose
            sched-runtime= sched-period= sched-deadline=
            """,
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
            mount-proc kill-child keep-caps propagation= setgroups= root= wd= setuid= setgid=
            map-user= map-group= map-users= map-groups= monotonic= boottime= load-interp=
            """,
        ),
        "nsenter": options(
            "aFZeckh",
            "tSGW",
            """
            all no-fork env join-cgroup keep-caps preserve-credentials target= setuid= setgid=
            mount uts ipc net pid user cgroup time root wd wdns= user-parent mount= uts= ipc=
            net= pid= user= cgroup= time= root= wd=
            """,
            optional="muinpUCTrw",
        ),
        "setpriv": options(
            "dh",
            "",
            """
            dump no-new-privs nnp clear-groups keep-groups init-groups reset-env ambient-caps=
            inh-caps= bounding-set= ruid= euid= reuid= rgid= egid= regid= groups= securebits=
            pdeathsig= ptracer= selinux-label= apparmor-profile= landlock-access= landlock-rule=
            seccomp-filter=
            """,
        ),
        "s6-setsid": options("bfgids"),
        """
        s6-softlimit flatpak-spawn msgfilter msgexec xtrace pg_virtualenv switch_root gpg-agent agetty
        getty bwrap firejail perf dotenvx aws-vault doppler op prlimit schedtool daemon daemonize
        capsh jexec lxc lxc-attach systemd-nspawn minijail0 nsjail gdbserver rr uftrace bpftrace
        qemu-x86_64 qemu-aarch64 winpty vglrun optirun nsys ncu mpirun mpiexec srun torchrun
        accelerate direnv mise asdf rbenv pyenv nodenv rustup conda mamba micromamba watchexec nodemon
        """: options(loose=True),
        "lckdo": options("wesxqtW", "E", operands=1),
        "run0": options("", "uD", loose=True),
        "systemd-socket-activate": options(
            "adh", "lE", "listen= datagram seqpacket accept inetd setenv= fdname="
        ),
        "uclampset": options("asR", "mMp", "all-tasks system reset-on-fork pid="),
        "memusage": options(
            "utT", "npdb", "unbuffered no-timer total title= progname= png= data= buffer="
        ),
        "sotruss": options("fe", "FTo", "follow exit from= to= output="),
        "logsave": options("asv", operands=1),
        "debconf": options("", "of", "owner= frontend= priority= terse"),
        "ldd": options("vdru"),
        "fakeroot-sysv fakeroot-tcp fakeroot": options(
            "uhvn", "lsib", "unknown-is-real lib= faked= help"
        ),
        "xvfb-run": options(
            "alh",
            "efnpsw",
            """
            auto-servernum listen-tcp error-file= auth-file= server-num= server-args= wait=
            xauth-protocol=
            """,
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
            user system scope no-block wait pty pipe quiet collect shell remain-after-exit
            same-dir no-ask-password unit= property= description= slice= uid= gid= nice=
            working-directory= setenv= on-active= on-boot= on-calendar= host= machine=
            service-type= path-property= timer-property= expand-environment=
            """,
        ),
        "systemd-inhibit": options("", "", "what= who= why= mode= list no-pager no-legend"),
        "systemd-cat": options("", "tp", "identifier= priority= stderr-priority= level-prefix="),
        "numactl": options(
            "asHhl",
            "iNmCpP",
            """
            all show hardware localalloc interleave= cpunodebind= membind= physcpubind=
            preferred=
            """,
        ),
        "cgexec": options("", "g", "sticky"),
        "faketime": options("mf", "", "exclude-monotonic", operands=1),
        "tini": options("svwgh", "pe"),
        "dumb-init": options("csv", "r", "single-child rewrite= verbose"),
        "catatonit": options("P"),
        "chpst": options("vP012", "uUb/eCnmdopfclr"),
        "softlimit": options("", "mdsloafcrtp"),
        "unbuffer": options("p"),
        "rlwrap": options("cirnR", "abCfgHlmpqsStzw", "always-readline case-insensitive remember"),
        "torsocks": options("di", "upaP"),
        "proxychains proxychains4": options("q", "f"),
        "pkexec": options("", "u", "user= disable-internal-agent keep-cwd"),
        "sem": options("u", "j", "fg wait bg id= jobs= semaphorename="),
        "cpulimit": options(
            "bzifv", "lpcP", "background lazy foreground include-children limit= pid= path="
        ),
        "trickle": options("hVvs", "dunwtlLP"),
        "chronic": options("vet"),
        "ifne": options("n"),
        "caffeinate": options("disum", "tw"),
        "genv": options("0iv", "uCS", assignments=True),
        "runcon": options("c", "utrl", "compute type= user= role= range=", operands=1),
        "aa-exec": options("ivdh", "pn", "profile= namespace= immediate verbose debug"),
        "valgrind": options("hqv", loose=True),
        "heaptrack": options("r", "o", "raw record-only output= interpret"),
        "proot": options("", "rbwqkv", loose=True),
        "cross-env cross-env-shell": options(assignments=True),
        "dotenv": options("", "efv", loose=True),
        "authbind": options("", "", "deep depth="),
        "fakechroot": options("se", "bc", "use-system-libs lib= elfloader= environment= config-dir="),
        "entr": options("acdnprsxz"),
    }
)

SUBCOMMANDS: Mapping[str, tuple[str, ...]] = by_name(
    {
        "perf": ("stat", "record", "trace"),
        """
        op doppler dotenvx rustup conda mamba micromamba poetry pipenv uv pdm hatch rye pixi heroku
        toolbox flatpak snap coverage infisical devbox bazel
        """: ("run",),
        "dotenv": ("run", "--"),
        """
        aws-vault lxc direnv asdf rbenv pyenv nodenv bundle lerna multipass vercel chamber
        devcontainer tox
        """: ("exec",),
        "mise npm": ("exec", "x"),
        "rr": ("record",),
        "uftrace": ("record", "live"),
        "nsys": ("profile", "launch"),
        "accelerate": ("launch",),
        "pnpm yarn": ("exec", "dlx"),
        "bun": ("x",),
        "docker nerdctl docker-compose": ("exec", "run"),
        "podman": ("exec", "run", "unshare"),
        "kubectl": ("exec", "run", "debug"),
        "oc": ("exec", "rsh", "run"),
        "k3s": ("kubectl",),
        "minikube": ("ssh", "kubectl"),
        "vagrant fly flyctl tsh": ("ssh",),
        "gcloud": ("compute",),
        "machinectl adb": ("shell",),
        "ip": ("netns", "vrf"),
        "distrobox": ("enter",),
        "nix": ("develop", "shell", "run"),
        "sops": ("exec-env", "exec-file"),
        "ansible salt pdsh mosh rsh wsl wsl.exe screen": (),
        "cargo": ("watch",),
        "guix": ("shell", "environment"),
    }
)
"""Programs that run what follows one of these words; without any, they run what follows any word."""

ARCHITECTURES = re.compile(r"linux32|linux64|i[3-6]86|x86_64|uname26|ppc(?:64)?(?:le)?|aarch64|arch")
LOADER = re.compile(r"ld(?:-linux|-musl)?[\w-]*\.so(?:\.\d+)?|ld-[\d.]+\.so|ld\.so")
