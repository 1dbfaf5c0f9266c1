//! The protocol's lines: one JSON message each.
//!
//! Invalid messages are answered, as far as possible, so that no client waits for an answer that never comes. A line that is too
//! long ends the connection: the rest of the input may not start at the beginning of a message.

use std::io;

use rmcp::model::{ClientJsonRpcMessage, ErrorCode, ErrorData, RequestId, ServerJsonRpcMessage};
use rmcp::service::{RoleServer, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, BufReader, Empty};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The longest message.
pub(super) const MAX_LINE: usize = 1 << 20;

/// Messages in lines. The reading is ours, the writing is the SDK's.
pub(super) struct Lines<R, W: AsyncWrite> {
    read: BufReader<R>,
    line: Vec<u8>,
    write: AsyncRwTransport<RoleServer, Empty, W>,
    /// The reply to an invalid message, while it is being written.
    reply: Option<JoinHandle<()>>,
    /// Cancelled when the client has gone.
    gone: CancellationToken,
}

enum Line {
    Whole,
    TooLong,
    End,
}

impl<R, W> Lines<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    pub(super) fn new(read: R, write: W, gone: CancellationToken) -> Lines<R, W> {
        Lines {
            read: BufReader::new(read),
            line: Vec::new(),
            write: AsyncRwTransport::new_server(tokio::io::empty(), write),
            reply: None,
            gone,
        }
    }

    /// Reads up to the end of a line. The future may be dropped at any await: what was read is kept in `self`.
    async fn line(&mut self) -> Line {
        loop {
            let Ok(available) = self.read.fill_buf().await else { return Line::End };
            if available.is_empty() {
                return Line::End;
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(available.len(), |end| end + 1);
            if self.line.len() + taken > MAX_LINE {
                return Line::TooLong;
            }
            self.line.extend_from_slice(&available[..taken]);
            self.read.consume(taken);
            if end.is_some() {
                return Line::Whole;
            }
        }
    }

    /// Writes on a task of its own: the caller may be dropped halfway, but a message must be written completely.
    fn answer(&mut self, error: ErrorData, id: Option<RequestId>) {
        let send = self.write.send(ServerJsonRpcMessage::error(error, id));
        self.reply = Some(tokio::spawn(async move {
            // If the client has gone, the next read sees the end.
            let _ = send.await;
        }));
    }
}

impl<R, W> Transport<RoleServer> for Lines<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        self.write.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            match self.line().await {
                Line::Whole => match message(&std::mem::take(&mut self.line)) {
                    Ok(Some(message)) => return Some(message),
                    Ok(None) => {}
                    Err((error, id)) => self.answer(error, id),
                },
                Line::TooLong => {
                    let why = format!("a message may have at most {MAX_LINE} bytes");
                    self.answer(ErrorData::invalid_request(why, None), None);
                    break;
                }
                Line::End => break,
            }
        }
        self.gone.cancel();
        None
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        if let Some(reply) = self.reply.take() {
            // It only writes; if that failed, the client has gone.
            let _ = reply.await;
        }
        self.write.close().await
    }
}

/// Parses a line into a message. None: there is nothing to answer.
fn message(line: &[u8]) -> Result<Option<ClientJsonRpcMessage>, (ErrorData, Option<RequestId>)> {
    let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line).trim_ascii();
    if line.is_empty() {
        return Ok(None);
    }
    let value: Value = serde_json::from_slice(line).map_err(|error| {
        let why = format!("not JSON, at column {}", error.column());
        (ErrorData::new(ErrorCode::PARSE_ERROR, why, None), None)
    })?;
    let id = value.get("id").cloned();
    let is_notification = id.is_none() && value.get("method").is_some();
    match serde_json::from_value(value) {
        Ok(message) => Ok(Some(message)),
        Err(_) if is_notification => Ok(None),
        Err(_) => {
            let id = id.and_then(|id| serde_json::from_value(id).ok());
            Err((ErrorData::invalid_request("not a message of this protocol", None), id))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_of(line: &str) -> (i32, Option<RequestId>) {
        let (error, id) = message(line.as_bytes()).expect_err(line);
        (error.code.0, id)
    }

    #[test]
    fn what_is_not_a_message_is_answered_and_nothing_panics() {
        assert_eq!(error_of("hello"), (-32700, None));
        assert_eq!(error_of("{\"jsonrpc\":"), (-32700, None));
        assert_eq!(error_of(&"[".repeat(100_000)), (-32700, None));
        assert_eq!(error_of("[]"), (-32600, None));
        assert_eq!(error_of("7"), (-32600, None));
        assert_eq!(error_of("{\"id\":7}"), (-32600, Some(RequestId::Number(7))));
    }

    #[test]
    fn empty_lines_and_notifications_are_not_answered() {
        assert!(matches!(message(b"\r\n"), Ok(None)));
        assert!(message(br#"{"jsonrpc":"2.0","method":"notifications/nonsense","params":7}"#).is_ok());
        let call = br#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
        assert!(matches!(message(call), Ok(Some(ClientJsonRpcMessage::Request(_)))));
    }
}
