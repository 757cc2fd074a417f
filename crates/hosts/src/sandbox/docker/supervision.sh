# Inside a container: starts the command of a run and ends what it leaves, or ends everything of a run from outside.
#   run <run> <keep|kill> <program> [arguments]     leaves with the code of the program
#   sweep <run> <since> <signal>                    leaves with 0 when nothing of the run is left
# Only what every sh has is used. COUNTERSIGN_RUN=<run>; in the environment marks the processes of a run; whoever loses
# that mark is known by its parents, and by having begun after the run did. A process whose parent is 0 came from outside.

# Sets `_cs_mark` to the run in the environment of process $1.
marked() {
  _cs_mark=
  while IFS= read -r _cs_text || [ -n "$_cs_text" ]; do
    case $_cs_text in
      *COUNTERSIGN_RUN=*";"*) _cs_mark=${_cs_text#*COUNTERSIGN_RUN=}; _cs_mark=${_cs_mark%%;*}; return ;;
    esac
  done 2>/dev/null <"/proc/$1/environ"
} 2>/dev/null

# Sets `_cs_parent` and `_cs_began` of process $1. Fails when it has ended. Its name may hold anything, even lines.
looked() {
  _cs_all=
  while IFS= read -r _cs_text || [ -n "$_cs_text" ]; do _cs_all="$_cs_all $_cs_text"; done 2>/dev/null <"/proc/$1/stat"
  set -- ${_cs_all##*") "}
  case ${1-Z} in Z|X|x) return 1 ;; esac
  _cs_parent=${2-} _cs_began=${20-}
  [ -n "$_cs_began" ]
} 2>/dev/null

# Whether process $1 belongs to the run. Never more steps than there are processes above it.
belongs() {
  _cs_at=$1 _cs_steps=0
  while [ "$_cs_steps" -lt 4096 ]; do
    _cs_steps=$((_cs_steps + 1))
    [ "$_cs_at" != "$_cs_idle" ] && looked "$_cs_at" || return 1
    _cs_up=$_cs_parent
    [ "$_cs_at" = "$$" ] && { [ "$_cs_mode" = run ]; return; }
    marked "$_cs_at"
    [ "$_cs_mark" = "$_cs_run" ] && return 0
    case $_cs_live in *" $_cs_mark "*) return 1 ;; esac
    [ "$_cs_began" -lt "$_cs_since" ] && return 1
    [ "$_cs_up" = 0 ] && return 1
    [ "$_cs_up" = 1 ] && return 0
    _cs_at=$_cs_up
  done
  return 1
}

# Sets `_cs_found` to the processes of the run, without this one.
scan() {
  _cs_live=" " _cs_idle=0 _cs_oldest= _cs_found=
  for _cs_path in /proc/[0-9]*; do
    _cs_pid=${_cs_path#/proc/}
    looked "$_cs_pid" || continue
    if [ "$_cs_parent" = 0 ] && [ "$_cs_pid" != 1 ]; then
      _cs_up=$_cs_began
      marked "$_cs_pid"
      if [ "$_cs_mark" = "$_cs_run" ]; then
        [ "$_cs_up" -lt "$_cs_since" ] && _cs_since=$_cs_up
      elif [ -n "$_cs_mark" ]; then
        _cs_live="$_cs_live$_cs_mark "
      fi
    elif [ "$_cs_parent" = 1 ] && { [ -z "$_cs_oldest" ] || [ "$_cs_began" -lt "$_cs_oldest" ]; }; then
      # The idle process that keeps the container alive was there before every orphan.
      _cs_oldest=$_cs_began _cs_idle=$_cs_pid
    fi
  done
  for _cs_path in /proc/[0-9]*; do
    _cs_pid=${_cs_path#/proc/}
    [ "$_cs_pid" = 1 ] || [ "$_cs_pid" = "$$" ] || { belongs "$_cs_pid" && _cs_found="$_cs_found $_cs_pid"; }
  done
}

# Kills the processes of the run. They are stopped first, so that none makes another one meanwhile.
strike() {
  _cs_passes=0
  scan
  while [ -n "$_cs_found" ] && [ "$_cs_passes" -lt 64 ]; do
    _cs_passes=$((_cs_passes + 1)) _cs_before=
    while [ "$_cs_found" != "$_cs_before" ] && [ "$_cs_passes" -lt 64 ]; do
      _cs_passes=$((_cs_passes + 1)) _cs_before=$_cs_found
      kill -STOP $_cs_found 2>/dev/null
      scan
    done
    kill -KILL $_cs_found 2>/dev/null
    scan
  done
  [ -z "$_cs_found" ]
}

_cs_mode=$1
shift
case $_cs_mode in
  run)
    _cs_run=$1 _cs_leftovers=$2
    shift 2
    looked "$$" && _cs_since=$_cs_began || _cs_since=999999999999999
    # A signal for the run is for its command; who watches stays.
    trap : HUP INT QUIT TERM USR1 USR2
    # What this shell says of signals is no output of the command.
    exec 3>&2 2>/dev/null
    (
      exec 2>&3 3>&-
      if [ -n "${COUNTERSIGN_PATH+set}" ]; then
        PATH="$COUNTERSIGN_PATH:$PATH"
        unset COUNTERSIGN_PATH
      fi
      exec "$@"
    )
    _cs_code=$?
    if [ "$_cs_leftovers" = kill ]; then
      _cs_tries=0
      scan
      while [ -n "$_cs_found" ] && [ "$_cs_tries" -lt 10 ]; do
        _cs_tries=$((_cs_tries + 1))
        sleep 0.05 2>/dev/null || { sleep 1 2>/dev/null; _cs_tries=10; }
        scan
      done
      [ -z "$_cs_found" ] || strike
    fi
    exit "$_cs_code"
    ;;
  sweep)
    _cs_run=$1 _cs_since=$2
    if [ "$3" = KILL ]; then
      strike
    else
      scan
      [ -z "$_cs_found" ] || { kill -TERM $_cs_found; kill -CONT $_cs_found; } 2>/dev/null
      [ -z "$_cs_found" ]
    fi
    ;;
esac
