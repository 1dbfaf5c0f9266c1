//! A proxy between clients and a server that cuts connections on demand.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// What happens to a connection at a message of its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    Not,
    /// The message never arrives; the connection is cut after this time.
    Before(Duration),
    /// It arrives, but its answer does not; the connection is cut after this time.
    After(Duration),
    /// It arrives, and the answer is what a pooler says about a server that it lost; the connection is cut
    /// after this time.
    Lost(Duration),
}

/// An error message of the protocol.
fn lost_by_pooler() -> Vec<u8> {
    let fields = b"SFATAL\0VFATAL\0C08P01\0Mserver conn crashed?\0\0";
    let length = u32::try_from(fields.len() + 4).unwrap().to_be_bytes();
    [b"E", &length[..], &fields[..]].concat()
}

#[derive(Debug)]
pub struct Proxy {
    pub port: u16,
    /// Whether new connections are closed at once.
    pub refuses: Arc<AtomicBool>,
}

/// Whether a client's message asks for a commit.
pub fn is_commit(message: &[u8]) -> bool {
    message.windows(7).any(|word| word == b"COMMIT\0")
}

impl Proxy {
    /// Forwards to a port of this machine, for as long as the process lives. `judge` sees every message of
    /// every client.
    pub fn start(to: u16, judge: impl Fn(&[u8]) -> Cut + Send + Sync + 'static) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let refuses = Arc::new(AtomicBool::new(false));
        let (refusing, judge) = (Arc::clone(&refuses), Arc::new(judge));
        thread::spawn(move || {
            for client in listener.incoming().map_while(std::result::Result::ok) {
                // Without a server, the client's connection ends, too.
                let Ok(server) = TcpStream::connect(("127.0.0.1", to)) else { continue };
                if !refusing.load(Ordering::SeqCst) {
                    hand_on(client, server, Arc::clone(&judge));
                }
            }
        });
        Proxy { port, refuses }
    }
}

fn hand_on(client: TcpStream, server: TcpStream, judge: Arc<impl Fn(&[u8]) -> Cut + Send + Sync + 'static>) {
    for side in [&client, &server] {
        side.set_nodelay(true).unwrap();
    }
    let (back_from, back_to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
    let is_deaf = Arc::new(AtomicBool::new(false));
    let deafened = Arc::clone(&is_deaf);
    thread::spawn(move || pass(back_from, back_to, |_| !is_deaf.load(Ordering::SeqCst)));
    thread::spawn(move || {
        let (mut arrives, mut answers) = (server.try_clone().unwrap(), client.try_clone().unwrap());
        pass(client, server, |message| match judge(message) {
            Cut::Not => true,
            Cut::Before(pause) => {
                thread::sleep(pause);
                false
            }
            cut @ (Cut::After(pause) | Cut::Lost(pause)) => {
                deafened.store(true, Ordering::SeqCst);
                let _ = arrives.write_all(message);
                thread::sleep(pause);
                if matches!(cut, Cut::Lost(_)) {
                    let _ = answers.write_all(&lost_by_pooler());
                }
                false
            }
        });
    });
}

/// Forwards until one side ends or `goes_on` returns false; then both ends are closed.
fn pass(mut from: TcpStream, mut to: TcpStream, mut goes_on: impl FnMut(&[u8]) -> bool) {
    let mut buffer = [0; 16_384];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if !goes_on(&buffer[..count]) || to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
