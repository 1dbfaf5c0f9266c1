//! A commit whose answer is lost.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use onus_store::conformance::scribe::{append_note, look, uid};
use onus_store::conformance::server::{Server, fresh_name};
use onus_store::{PostgresStore, Store as _, StoreError};

use super::add;

/// Stands between a client and the server. When it is told to, it lets the next `COMMIT` through, or not, and cuts the
/// connection before the answer.
struct Proxy {
    port: u16,
    /// 0: hands everything on; 1: cuts after the commit has reached the server; 2: before; 3: as 1, and says what a pooler
    /// says of a server that it lost.
    cut: Arc<AtomicU32>,
    refuses: Arc<AtomicBool>,
}

impl Proxy {
    fn start(to: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (cut, refuses) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)));
        let (cutting, refusing) = (Arc::clone(&cut), Arc::clone(&refuses));
        thread::spawn(move || {
            for client in listener.incoming() {
                let Ok(client) = client else { return };
                if refusing.load(Ordering::SeqCst) {
                    continue;
                }
                let server = TcpStream::connect(("127.0.0.1", to)).unwrap();
                let (mut back_from, mut back_to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                let deaf = Arc::new(AtomicBool::new(false));
                let is_deaf = Arc::clone(&deaf);
                thread::spawn(move || {
                    let mut buffer = [0; 16_384];
                    while let Ok(count @ 1..) = back_from.read(&mut buffer) {
                        if !is_deaf.load(Ordering::SeqCst) && back_to.write_all(&buffer[..count]).is_err() {
                            return;
                        }
                    }
                    let _ = back_to.shutdown(std::net::Shutdown::Both);
                });
                let cutting = Arc::clone(&cutting);
                thread::spawn(move || {
                    let (mut client, mut server) = (client, server);
                    let mut buffer = [0; 16_384];
                    while let Ok(count @ 1..) = client.read(&mut buffer) {
                        let is_commit = buffer[..count].windows(7).any(|word| word == b"COMMIT\0");
                        let how = if is_commit { cutting.swap(0, Ordering::SeqCst) } else { 0 };
                        if how > 0 {
                            deaf.store(true, Ordering::SeqCst);
                        }
                        if how != 2 && server.write_all(&buffer[..count]).is_err() {
                            return;
                        }
                        if how > 0 {
                            thread::sleep(Duration::from_millis(200));
                            if how == 3 {
                                let _ = client.write_all(&lost_by_pooler());
                            }
                            let _ = client.shutdown(std::net::Shutdown::Both);
                            let _ = server.shutdown(std::net::Shutdown::Both);
                            return;
                        }
                    }
                    let _ = server.shutdown(std::net::Shutdown::Both);
                });
            }
        });
        Proxy { port, cut, refuses }
    }
}

/// An error message of the protocol.
fn lost_by_pooler() -> Vec<u8> {
    let fields = b"SFATAL\0VFATAL\0C08P01\0Mserver conn crashed?\0\0";
    let length = u32::try_from(fields.len() + 4).unwrap().to_be_bytes();
    [b"E", &length[..], &fields[..]].concat()
}

#[test]
fn a_commit_whose_answer_is_lost_is_applied_once_or_reported() {
    let server = Server::shared();
    let proxy = Proxy::start(server.port);
    let name = fresh_name();
    let mut direct = server.project_in(server.shared_database(), &name);
    add(&mut direct, 1);
    let address = server.shared_database().replace(&server.port.to_string(), &proxy.port.to_string());
    let wait = Duration::from_secs(1);
    let address = onus_store::Address::parse(&address, None, wait).unwrap();
    let mut store = PostgresStore::open(&address, &name, wait).unwrap();
    let mut runs = 0;
    let mut note = |store: &mut PostgresStore, cut: u32| {
        proxy.cut.store(cut, Ordering::SeqCst);
        store.write(|write| {
            runs += 1;
            append_note(write, uid(1, 1))
        })?;
        Ok::<u32, StoreError>(runs)
    };
    assert_eq!(note(&mut store, 0).unwrap(), 1);
    // The server has committed: that is found out, and nothing is done again.
    assert_eq!(note(&mut store, 1).unwrap(), 2);
    assert_eq!(note(&mut store, 3).unwrap(), 3);
    // The commit never arrived: it is run again.
    assert_eq!(note(&mut store, 2).unwrap(), 5);
    let version = |store: &mut PostgresStore| look(store, |read| read.task(uid(1, 1))).unwrap().version.0;
    assert_eq!(version(&mut direct), 5, "four notes, each once");
    // Nobody can be asked: that is said.
    let refuses = Arc::clone(&proxy.refuses);
    refuses.store(true, Ordering::SeqCst);
    assert!(matches!(note(&mut store, 1), Err(StoreError::Unknown(_))));
    refuses.store(false, Ordering::SeqCst);
    assert_eq!(version(&mut direct), 6);
    // And the next command finds its way back.
    note(&mut store, 0).unwrap();
    assert_eq!(version(&mut direct), 7);
}
