//! The process that becomes the command.

use std::{ffi::CString, os::fd::AsFd};

use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
    process::Signal,
};

use countersign_sys::{
    enclosure,
    process::{self, Strings},
};

use super::{
    Enclosing, Ends, Obstacle, ProcessLimit, Walls,
    obstacle::{At as _, Failure},
    read, say,
};
use crate::wire::Program;

/// Never returns: a program with another name takes its place, or it ends.
pub(super) fn main(enclosing: &Enclosing<'_>, program: &Program, walls: &Walls<'_>, ends: &Ends) -> ! {
    let Ends {
        report: _,
        life: _,
        go,
        executed,
    } = ends;
    let readied = make_ready(enclosing, program, walls);
    let said = readied
        .as_ref()
        .map(|_| process::own_id())
        .map_err(|failure| *failure);
    say(executed, said);
    if let Ok(ready) = readied
        && read(go, &mut [0; 1]) == Ok(1)
    {
        let errno = execute(&ready, walls);
        say(
            executed,
            Err(Failure {
                obstacle: Obstacle::Process,
                errno,
            }),
        );
    }
    process::exit_now(127)
}

struct Ready {
    programs: Vec<CString>,
    arguments: Strings,
    environment: Strings,
}

fn make_ready(enclosing: &Enclosing<'_>, program: &Program, walls: &Walls<'_>) -> Result<Ready, Failure> {
    let invalid = || Failure {
        obstacle: Obstacle::Process,
        errno: Errno::INVAL,
    };
    rustix::process::setsid().at(Obstacle::Process)?;
    // A supervisor that is killed takes its command along. One that was killed before this closed the pipe.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).at(Obstacle::Process)?;
    rustix::process::umask(Mode::from_raw_mode(0o022));
    for ProcessLimit { resource, soft, hard } in &enclosing.enclosed.limits {
        enclosure::set_limit(*resource, *soft, *hard).at(Obstacle::Limits)?;
    }
    rustix::process::chdir(enclosing.plan.directory.as_c_str()).at(Obstacle::Directory)?;
    if let (Some(held), Some(executables)) = (&enclosing.enclosed.held, &walls.executables) {
        let here = rustix::fs::stat(c".").at(Obstacle::Directory)?;
        if (here.st_dev, here.st_ino) != held.directory {
            return Err(Errno::STALE).at(Obstacle::Directory);
        }
        // Whatever can be moved at all lies in places that can be written.
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(c"/", flags, Mode::empty()).at(Obstacle::Filter)?;
        executables.allow_moving(root.as_fd()).at(Obstacle::Filter)?;
    }
    let [input, output, errors] = enclosing.standard;
    rustix::stdio::dup2_stdin(input).at(Obstacle::Process)?;
    rustix::stdio::dup2_stdout(output).at(Obstacle::Process)?;
    rustix::stdio::dup2_stderr(errors).at(Obstacle::Process)?;
    if enclosing.on_terminal {
        rustix::process::ioctl_tiocsctty(rustix::stdio::stdin()).at(Obstacle::Process)?;
    }
    let environment = [enclosing.plan.environment.as_slice(), &program.assignments].concat();
    let strings = |bytes: Vec<u8>| Strings::from_nul_terminated(bytes).ok_or_else(invalid);
    Ok(Ready {
        programs: candidates(program.path.to_bytes(), &environment),
        arguments: strings(program.arguments.clone())?,
        environment: strings(environment)?,
    })
}

fn execute(ready: &Ready, walls: &Walls<'_>) -> Errno {
    let surrender = walls.surrender();
    let Ready {
        programs,
        arguments,
        environment,
    } = ready;
    process::execute_one_of(programs, arguments, environment, || surrender.give_up())
}

/// Where a program may be: a name without a slash is looked for in the PATH of the environment.
fn candidates(name: &[u8], environment: &[u8]) -> Vec<CString> {
    if name.contains(&b'/') {
        return CString::new(name).into_iter().collect();
    }
    let path = environment
        .split(|byte| *byte == 0)
        .rev()
        .find_map(|variable| variable.strip_prefix(b"PATH="));
    path.unwrap_or_default()
        .split(|byte| *byte == b':')
        .filter(|directory| directory.starts_with(b"/"))
        .filter_map(|directory| CString::new([directory, b"/", name].concat()).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_looked_for_in_absolute_directories_of_the_last_path() {
        let found = |name: &[u8], environment: &[u8]| {
            let found = candidates(name, environment);
            found
                .into_iter()
                .map(|path| path.into_string().unwrap())
                .collect::<Vec<_>>()
        };
        let environment = b"PATH=/old\0A=PATH=/x\0PATH=/a:.::b:/c d\0";
        assert_eq!(found(b"x", environment), ["/a/x", "/c d/x"]);
        assert_eq!(found(b"./x", environment), ["./x"]);
        assert!(found(b"x", b"A=1\0").is_empty());
    }
}
