//! The first exchange with a server: whether the line is encrypted, and what the server may ask for before it
//! lets us in.
//!
//! A server that was not verified may be an impostor. With SCRAM, it and we can prove to each other that we
//! know the password without giving it away. The older methods send it, in the clear or as an MD5 that is as
//! good as the password itself. The client library answers any request, so this code reads along until the
//! server has let us in: a request for the password ends the connection before the library sees it.
//!
//! The library hands us the socket before anything was sent (it takes this for a server that is encrypted
//! from the start), and reaches the server only through the stream that it gets back.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use rustls::ClientConfig;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio_postgres::Socket;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_postgres_rustls::MakeRustlsConnect;

/// Asks for TLS. The server answers with one byte: S for yes.
const MAY_WE_ENCRYPT: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

/// An unverified server asked for the password itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "it asks for the password {how}, and nothing proves which server it is, so the password was not sent: verify the \
     server (sslmode=verify-full), or let it ask for a proof instead (scram-sha-256 in pg_hba.conf, and a password \
     set with password_encryption = 'scram-sha-256')",
    how = self.how()
)]
pub(super) enum PasswordRequest {
    InTheClear,
    AsMd5,
    /// By an unknown method.
    Otherwise,
}

impl PasswordRequest {
    fn how(self) -> &'static str {
        match self {
            PasswordRequest::InTheClear => "in the clear",
            PasswordRequest::AsMd5 => "as MD5, which is as good as in the clear",
            PasswordRequest::Otherwise => "in a way that onus does not know",
        }
    }
}

/// The request for a password because of which a connection failed, if that is why.
pub(super) fn asked_for_password(error: &tokio_postgres::Error) -> Option<PasswordRequest> {
    let cause = std::error::Error::source(error)?.downcast_ref::<io::Error>()?;
    cause.get_ref()?.downcast_ref::<PasswordRequest>().copied()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encryption {
    Off,
    IfOffered,
    AskedFor,
    /// Without asking first.
    FromTheStart,
}

type Encrypted = <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream;

/// How to call a server.
#[derive(Clone)]
pub(super) struct Dialer {
    tls: MakeRustlsConnect,
    encryption: Encryption,
    is_verified: bool,
}

impl Dialer {
    /// `is_verified`: whether `tls` accepts only the server that is meant.
    pub(super) fn new(tls: ClientConfig, encryption: Encryption, is_verified: bool) -> Dialer {
        let is_encrypted = matches!(encryption, Encryption::AskedFor | Encryption::FromTheStart);
        Dialer { tls: MakeRustlsConnect::new(tls), encryption, is_verified: is_verified && is_encrypted }
    }
}

impl MakeTlsConnect<Socket> for Dialer {
    type Stream = ServerStream;
    type TlsConnect = Handshake;
    type Error = std::convert::Infallible;

    fn make_tls_connect(&mut self, domain: &str) -> Result<Handshake, Self::Error> {
        let tls = MakeTlsConnect::<Socket>::make_tls_connect(&mut self.tls, domain)?;
        let guard = if self.is_verified { None } else { Some(AuthGuard::default()) };
        Ok(Handshake { tls, encryption: self.encryption, guard })
    }
}

/// A call to one server.
pub(super) struct Handshake {
    tls: <MakeRustlsConnect as MakeTlsConnect<Socket>>::TlsConnect,
    encryption: Encryption,
    guard: Option<AuthGuard>,
}

impl TlsConnect<Socket> for Handshake {
    type Stream = ServerStream;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<ServerStream>> + Send>>;

    fn connect(self, mut socket: Socket) -> Self::Future {
        Box::pin(async move {
            let encrypted = match self.encryption {
                Encryption::Off => false,
                Encryption::FromTheStart => true,
                Encryption::IfOffered | Encryption::AskedFor => {
                    socket.write_all(&MAY_WE_ENCRYPT).await?;
                    let mut answer = [0];
                    socket.read_exact(&mut answer).await?;
                    answer == *b"S"
                }
            };
            let transport = match encrypted {
                true => {
                    Transport::Encrypted(Box::new(TlsConnect::<Socket>::connect(self.tls, socket).await?))
                }
                false if self.encryption == Encryption::AskedFor => {
                    return Err(io::Error::other("the server does not support TLS"));
                }
                false => Transport::Plain(socket),
            };
            Ok(ServerStream { transport, guard: self.guard })
        })
    }
}

enum Transport {
    Plain(Socket),
    Encrypted(Box<Encrypted>),
}

/// A line to a server. Reads what the server asks for before the library does.
pub(super) struct ServerStream {
    transport: Transport,
    /// Until the server has let us in, if it was not verified.
    guard: Option<AuthGuard>,
}

impl TlsStream for ServerStream {
    fn channel_binding(&self) -> ChannelBinding {
        match &self.transport {
            Transport::Plain(_) => ChannelBinding::none(),
            Transport::Encrypted(stream) => stream.channel_binding(),
        }
    }
}

impl AsyncRead for ServerStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let read = match &mut self.transport {
            Transport::Plain(stream) => Pin::new(stream).poll_read(context, into),
            Transport::Encrypted(stream) => Pin::new(stream).poll_read(context, into),
        };
        if let (Some(guard), Poll::Ready(Ok(()))) = (&mut self.guard, &read) {
            match guard.inspect(&into.filled()[before..]) {
                Ok(Heard::LetIn) => self.guard = None,
                Ok(Heard::NotYet) => {}
                Err(asked) => {
                    // Hand on no byte of the request.
                    into.set_filled(before);
                    return Poll::Ready(Err(io::Error::other(asked)));
                }
            }
        }
        read
    }
}

impl AsyncWrite for ServerStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.transport {
            Transport::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Transport::Encrypted(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.transport {
            Transport::Plain(stream) => Pin::new(stream).poll_flush(context),
            Transport::Encrypted(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.transport {
            Transport::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Transport::Encrypted(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heard {
    NotYet,
    LetIn,
}

/// Reads the server's messages until it has let us in. A message is a letter, a length that includes itself,
/// and in an authentication request (R) its kind.
#[derive(Debug, Default)]
struct AuthGuard {
    head: Vec<u8>,
    /// How much of the current message is left.
    rest: usize,
}

impl AuthGuard {
    fn inspect(&mut self, mut bytes: &[u8]) -> Result<Heard, PasswordRequest> {
        while !bytes.is_empty() {
            if self.rest > 0 {
                let skipped = self.rest.min(bytes.len());
                self.rest -= skipped;
                bytes = &bytes[skipped..];
                continue;
            }
            self.head.push(bytes[0]);
            bytes = &bytes[1..];
            let number = |at: usize| {
                let digits = self.head.get(at..at + 4).and_then(|digits| digits.try_into().ok());
                digits.map(u32::from_be_bytes)
            };
            let is_request = self.head.first() == Some(&b'R');
            let (Some(length), read) = (number(1), self.head.len()) else { continue };
            if is_request {
                match number(5) {
                    None if length >= 8 => continue,
                    Some(0) => return Ok(Heard::LetIn),
                    // SCRAM: the list of mechanisms, and the two further steps.
                    Some(10..=12) => {}
                    Some(3) => return Err(PasswordRequest::InTheClear),
                    Some(5) => return Err(PasswordRequest::AsMd5),
                    Some(_) | None => return Err(PasswordRequest::Otherwise),
                }
            }
            let whole = usize::try_from(length).unwrap_or(usize::MAX).saturating_add(1);
            self.rest = whole.saturating_sub(read);
            self.head.clear();
        }
        Ok(Heard::NotYet)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    use super::super::Address;
    use super::super::connection::Connection;
    use super::*;

    const PASSWORD: &str = "s3cret";

    fn request(code: u32, more: &[u8]) -> Vec<u8> {
        let length = u32::try_from(8 + more.len()).unwrap();
        [b"R", &length.to_be_bytes()[..], &code.to_be_bytes(), more].concat()
    }

    /// A message: what of it comes before its length, and the rest.
    fn message(stream: &mut TcpStream, letters: usize) -> io::Result<Vec<u8>> {
        let mut letter = vec![0; letters];
        stream.read_exact(&mut letter)?;
        let mut length = [0; 4];
        stream.read_exact(&mut length)?;
        let mut rest = vec![0; u32::from_be_bytes(length) as usize - 4];
        stream.read_exact(&mut rest)?;
        Ok([letter, rest].concat())
    }

    /// What a client says to a server that takes no encryption and asks for these, one after the other, and what the client
    /// makes of it.
    fn asked(requests: Vec<Vec<u8>>, options: &str) -> (Vec<u8>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            if message(&mut stream, 0).unwrap() == MAY_WE_ENCRYPT[4..] {
                stream.write_all(b"N").unwrap();
                message(&mut stream, 0).unwrap();
            }
            let mut answers = Vec::new();
            for request in requests {
                // Byte by byte: no message comes whole.
                let sent = request.iter().try_for_each(|byte| stream.write_all(&[*byte]));
                let Ok(answer) = sent.and_then(|()| message(&mut stream, 1)) else { break };
                answers.extend(answer);
            }
            let _ = stream.read_to_end(&mut answers);
            answers
        });
        let text = format!("postgres://ada:{PASSWORD}@127.0.0.1:{port}/onus{options}");
        let address = Address::parse(&text, None, Duration::from_secs(5)).unwrap();
        let Err(error) = Connection::open(&address) else { panic!("it is no server") };
        (server.join().unwrap(), error.to_string())
    }

    #[test]
    fn a_password_is_not_sent_to_who_only_asks_for_it() {
        for options in ["", "?sslmode=disable", "?sslmode=prefer"] {
            for (request, why) in [
                (request(3, &[]), "in the clear"),
                (request(5, &[1, 2, 3, 4]), "as MD5"),
                (request(7, &[]), "does not know"),
                (vec![b'R', 0, 0, 0, 4], "does not know"),
            ] {
                let (said, error) = asked(vec![request], options);
                assert_eq!(said, b"", "{options}: {error}");
                assert!(error.contains(why) && error.contains("verify-full"), "{options}: {error}");
                assert!(!error.contains(PASSWORD), "{error}");
            }
        }
    }

    #[test]
    fn a_proof_may_be_asked_for_and_only_that() {
        let first_step = request(10, b"SCRAM-SHA-256\0\0");
        let (said, error) = asked(vec![first_step, request(3, &[])], "?sslmode=disable");
        // The proof's first step has a random number in it, and nothing of the password.
        assert!(said.starts_with(b"pSCRAM-SHA-256\0"), "{said:?} {error}");
        assert!(!said.windows(PASSWORD.len()).any(|word| word == PASSWORD.as_bytes()), "{said:?}");
        assert!(error.contains("in the clear"), "{error}");
    }

    #[test]
    fn however_it_comes_in_pieces_it_is_heard() {
        let all =
            [b"N\0\0\0\x0aabcdef".to_vec(), request(10, b"SCRAM-SHA-256\0\0"), request(5, b"salt")].concat();
        for cut in 0..all.len() {
            let mut guard = AuthGuard::default();
            let heard = guard.inspect(&all[..cut]).and_then(|_| guard.inspect(&all[cut..]));
            assert_eq!(heard, Err(PasswordRequest::AsMd5), "{cut}");
        }
        assert_eq!(AuthGuard::default().inspect(&request(0, &[])), Ok(Heard::LetIn));
    }
}
