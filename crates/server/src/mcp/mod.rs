//! The Model Context Protocol, for one client on standard input and output.

mod answers;
mod calls;
mod grants;
mod lines;
mod tools;
mod wording;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelledNotificationParam, ErrorData, Implementation,
    ListToolsResult, PaginatedRequestParams, RequestId, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{NotificationContext, RequestContext, RoleServer, ServiceExt as _};
use rmcp::{ServerHandler, model};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use onus_core::ids::shortened;
use onus_core::refusal::{Code, Refusal, Step};
use onus_engine::Identity;

use onus_host::{Asker, Connection};

use answers::{Answer, refused};
use calls::Known;
use grants::Grants;
use lines::Lines;
use tools::{Call, Claim};

/// How many claims may wait at once.
const MAX_WAITING: usize = 8;

/// Serves the client at standard input and output until it disconnects.
pub fn serve(connection: Connection) -> Result<(), Refusal> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .max_blocking_threads(MAX_WAITING + 8)
        .build()
        .map_err(|error| Refusal::new(Code::Unexpected, format!("cannot start the server: {error}")))?;
    runtime.block_on(async {
        let server = Server::new(connection);
        let lines = Lines::new(tokio::io::stdin(), tokio::io::stdout(), server.gone.clone());
        // A client that disconnects before it has introduced itself has requested nothing.
        if let Ok(running) = server.clone().serve(lines).await {
            // The client disconnected, or the transport failed: either way it is gone.
            let _ = running.waiting().await;
        }
        server.farewell().await;
    });
    // Everything that changes something has ended. A read of standard input may still run; nothing waits for it.
    runtime.shutdown_background();
    Ok(())
}

#[derive(Clone, Debug)]
struct Server {
    connection: Arc<Connection>,
    tools: Arc<Vec<Tool>>,
    /// Calls take turns: one store is open at a time.
    turn: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    grants: Arc<Grants>,
    /// The identity of the connection's own instance, if the client acted as that.
    own: Arc<Mutex<Option<Identity>>>,
    /// The client was introduced, or an attempt was made.
    is_introduced: Arc<AtomicBool>,
    /// The client has closed its end.
    gone: CancellationToken,
}

impl Server {
    fn new(connection: Connection) -> Server {
        Server {
            connection: Arc::new(connection),
            tools: Arc::new(tools::list()),
            turn: Arc::new(Semaphore::new(1)),
            waiting: Arc::new(Semaphore::new(MAX_WAITING)),
            grants: Arc::default(),
            own: Arc::default(),
            is_introduced: Arc::default(),
            gone: CancellationToken::new(),
        }
    }

    /// Runs work on the store, when its turn comes.
    async fn in_turn<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let _turn = self.turn.acquire().await.map_err(failed)?;
        let connection = Arc::clone(&self.connection);
        tokio::task::spawn_blocking(move || work(&connection)).await.map_err(failed)?
    }

    async fn call(&self, asker: Asker, call: Call) -> Result<Answer, Refusal> {
        let (answer, known) =
            self.in_turn(move |connection| calls::carry_out(connection, &asker, call)).await?;
        self.remember(known);
        Ok(answer)
    }

    /// Registers the client. Clients list the tools when they start, before their agent can have used a shell.
    async fn introduce(&self, asker: Asker) {
        if !self.is_introduced.swap(true, Ordering::Relaxed) {
            // If that fails, the client's shell and this connection are two instances.
            let _ = self.in_turn(move |connection| connection.introduce(&asker)).await;
        }
    }

    async fn claim(
        &self,
        asker: Asker,
        claim: Claim,
        id: RequestId,
        cancelled: CancellationToken,
    ) -> Result<Answer, Refusal> {
        let waits = claim.wait > 0;
        if waits && self.waiting.available_permits() == 0 {
            let why = format!("{MAX_WAITING} claims are already waiting on this connection");
            return Err(
                Refusal::new(Code::Limit, why).next(Step::plain("wait for one of them, or cancel it"))
            );
        }
        let turn = if waits { &self.waiting } else { &self.turn }.acquire().await.map_err(failed)?;
        // Dropping `keep_waiting` makes `stop` readable, which ends the wait.
        let (stop, keep_waiting) = std::io::pipe().map_err(failed)?;
        let (connection, grants) = (Arc::clone(&self.connection), Arc::clone(&self.grants));
        let request = id.clone();
        let mut work = tokio::task::spawn_blocking(move || {
            let (answer, grant, known) = calls::claim(&connection, &asker, claim, &stop)?;
            if let Some(grant) = grant {
                grants.put(request, grant);
            }
            Ok((answer, known))
        });
        let outcome = tokio::select! {
            outcome = &mut work => outcome,
            () = self.nobody_listens(&cancelled) => {
                drop(keep_waiting);
                work.await
            }
        };
        // Releasing the lease takes a turn of its own.
        drop(turn);
        if let Ok(Ok((_, known))) = &outcome {
            self.remember(known.clone());
        }
        if cancelled.is_cancelled() || self.gone.is_cancelled() {
            self.give_back(&id).await;
        }
        outcome.map_err(failed)?.map(|(answer, _)| answer)
    }

    async fn nobody_listens(&self, cancelled: &CancellationToken) {
        tokio::select! {
            () = cancelled.cancelled() => {}
            () = self.gone.cancelled() => {}
        }
    }

    /// Releases the lease that a cancelled request was granted, if any.
    async fn give_back(&self, id: &RequestId) {
        if let Some(grant) = self.grants.take(id) {
            // If that fails, the lease stays: bound to the client, and shown to it as its own.
            let _ = self.in_turn(move |connection| grant.give_back(connection)).await;
        }
    }

    fn remember(&self, known: Known) {
        if let Some(identity) = known.filter(|known| known.instance.as_str() == self.connection.name) {
            *self.own.lock().unwrap_or_else(PoisonError::into_inner) = Some(identity);
        }
    }

    /// After the client has gone, releases the leases that only this connection could end.
    async fn farewell(&self) {
        let own = self.own.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A turn is taken in any case, so that claims that were cancelled just before are released first. If releasing fails,
        // the leases last as long as the client's process.
        let _ = self
            .in_turn(move |connection| match own {
                Some(identity) => grants::give_back_all(connection, &identity),
                None => Ok(()),
            })
            .await;
    }
}

fn failed(error: impl std::fmt::Display) -> Refusal {
    Refusal::new(Code::Unexpected, format!("the server failed: {error}"))
}

fn asker_of(context: &RequestContext<RoleServer>) -> Asker {
    let client = context.client_info().map(|client| client.name).unwrap_or_default();
    Asker::new(client, &|field| Some(context.meta.get(field)?.as_str()?.to_owned()))
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("onus", env!("CARGO_PKG_VERSION")))
            .with_instructions(tools::INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        self.introduce(asker_of(&context)).await;
        Ok(ListToolsResult::with_all_items(self.tools.to_vec()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools.iter().find(|tool| tool.name == name).cloned()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let understood = tools::understand(&request.name, request.arguments.unwrap_or_default());
        let Some(understood) = understood else {
            return Err(ErrorData::invalid_params(
                format!("there is no tool '{}'", shortened(&request.name)),
                None,
            ));
        };
        let asker = asker_of(&context);
        let outcome = match understood {
            Ok(Call::Claim(claim)) => self.claim(asker, claim, context.id, context.ct).await,
            Ok(call) => self.call(asker, call).await,
            Err(refusal) => Err(refusal),
        };
        let result: model::CallToolResult = match outcome {
            Ok(answer) => answer.into_result(),
            Err(refusal) => refused(&refusal),
        };
        Ok(result.into())
    }

    async fn on_cancelled(
        &self,
        cancelled: CancelledNotificationParam,
        _context: NotificationContext<RoleServer>,
    ) {
        if let Some(id) = cancelled.request_id {
            self.give_back(&id).await;
        }
    }
}
