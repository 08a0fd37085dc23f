//! Other programs, which are given little time.

use std::{
    io::{self, Read, Write},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Most bytes that are read from another program. A guess: `systemctl show` writes some kilobytes.
const OUTPUT_BYTES_MAX: u64 = 1 << 20;

/// Interval at which a program is asked whether it has ended.
const ASK_EVERY: Duration = Duration::from_millis(5);

/// Runs a program and returns its standard output, at most 1 MiB of it. Its standard error is that of
/// this process. A program that has not ended within `limit` is killed:
/// [`TimedOut`](io::ErrorKind::TimedOut).
pub fn output_within(command: &mut Command, limit: Duration) -> io::Result<(ExitStatus, Vec<u8>)> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let output = child.stdout.take();
    let reader = thread::Builder::new().name("unsnap-output".to_owned()).spawn(move || {
        let mut bytes = Vec::new();
        if let Some(output) = output {
            let _ = output.take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes);
        }
        bytes
    });
    let status = end_within(&mut child, limit)?;
    // A process that outlives the program may hold the pipe open: what has not arrived is not awaited.
    let reader = reader?;
    let since = Instant::now();
    while !reader.is_finished() && since.elapsed() < limit {
        thread::sleep(ASK_EVERY);
    }
    if !reader.is_finished() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    Ok((status, reader.join().unwrap_or_default()))
}

/// Runs a program with this text as its standard input. Its standard output is discarded: that of
/// this process belongs to the report or the validator. A program that has not ended within `limit`
/// is killed: [`TimedOut`](io::ErrorKind::TimedOut).
pub fn feed_within(command: &mut Command, input: &str, limit: Duration) -> io::Result<ExitStatus> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
    let text = input.to_owned();
    let pipe = child.stdin.take();
    // On a thread of its own: the program may read nothing.
    let writer = thread::Builder::new().name("unsnap-input".to_owned()).spawn(move || {
        if let Some(mut pipe) = pipe {
            let _ = pipe.write_all(text.as_bytes());
        }
    });
    let status = end_within(&mut child, limit);
    writer?;
    status
}

/// Runs a program without input and output. Its standard error is that of this process. A program that
/// has not ended within `limit` is killed: [`TimedOut`](io::ErrorKind::TimedOut).
pub fn run_within(command: &mut Command, limit: Duration) -> io::Result<ExitStatus> {
    end_within(&mut command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?, limit)
}

fn end_within(child: &mut Child, limit: Duration) -> io::Result<ExitStatus> {
    let since = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if since.elapsed() >= limit {
            child.kill()?;
            child.wait()?;
            return Err(io::ErrorKind::TimedOut.into());
        }
        thread::sleep(ASK_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_mins(1);

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn output_and_status_are_returned() {
        let (status, output) = output_within(&mut shell("echo hello; exit 3"), LONG).unwrap();
        assert_eq!((status.code(), &*output), (Some(3), &b"hello\n"[..]));
        let missing = output_within(&mut Command::new("/no/such/program"), LONG).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn input_arrives_and_need_not_be_read() {
        let status = feed_within(&mut shell("read line; test \"$line\" = '{}'"), "{}\n", LONG);
        assert!(status.unwrap().success());
        let long = "x".repeat(1 << 20);
        assert!(feed_within(&mut shell("exit 0"), &long, LONG).unwrap().success());
    }

    #[test]
    fn a_program_that_does_not_end_is_killed() {
        let error = feed_within(&mut shell("exec sleep 1000"), "", Duration::ZERO).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let error = output_within(&mut shell("exec sleep 1000"), Duration::ZERO).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
