//! The connection to the editor over standard input and output.
//!
//! `lsp_server` has one, too, which allocates what the header of a message claims before it reads
//! it: a wrong header aborts the process. Here a length beyond [`LONGEST`] is an error like every
//! other header that cannot be read.

use std::io::{self, BufRead, Read};
use std::thread::{self, JoinHandle};

use lsp_server::{Connection, Message};

/// The longest message in bytes: many times the largest program that a check takes.
const LONGEST: u64 = 1 << 30;

/// The threads that read and write.
pub(super) struct Threads([JoinHandle<io::Result<()>>; 2]);

impl Threads {
    /// Waits until both end; the first error.
    pub(super) fn join(self) -> io::Result<()> {
        self.0.into_iter().try_for_each(|thread| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

/// The connection, which ends with an `exit` of the editor, or with standard input.
pub(super) fn stdio() -> (Connection, Threads) {
    let (editor, server) = Connection::memory();
    let Connection { sender, receiver } = editor;
    let reader = thread::spawn(move || {
        let mut input = Limited(io::stdin().lock());
        while let Some(message) = Message::read(&mut input)? {
            let is_exit = matches!(&message, Message::Notification(it) if it.method == "exit");
            sender.send(message).map_err(io::Error::other)?;
            if is_exit {
                break;
            }
        }
        Ok(())
    });
    let writer = thread::spawn(move || {
        receiver.into_iter().try_for_each(|message| message.write(&mut io::stdout().lock()))
    });
    (server, Threads([reader, writer]))
}

/// A stream of messages whose headers are looked at before memory for what they announce is
/// allocated.
struct Limited<R>(R);

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl<R: BufRead> BufRead for Limited<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.0.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        self.0.consume(count);
    }

    /// A line of a header, which is what lines are read of.
    fn read_line(&mut self, line: &mut String) -> io::Result<usize> {
        let count = self.0.read_line(line)?;
        let length = line.split_once(": ").and_then(|(name, value)| {
            let is_length = name.eq_ignore_ascii_case("Content-Length");
            value.trim_end().parse::<u64>().ok().filter(|_| is_length)
        });
        match length.filter(|&length| length > LONGEST) {
            None => Ok(count),
            Some(length) => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("Content-Length: {length} is more than {LONGEST} bytes"),
            )),
        }
    }
}
