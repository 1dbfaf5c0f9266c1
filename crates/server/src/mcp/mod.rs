//! The Model Context Protocol, for one client on standard input and output.

mod answers;
mod calls;
mod grants;
mod lines;
mod tools;

use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelledNotificationParam, ErrorData, Implementation,
    ListToolsResult, PaginatedRequestParams, RequestId, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{NotificationContext, RequestContext, RoleServer, ServiceExt as _};
use rmcp::{ServerHandler, model};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use onus_core::refusal::{Code, Refusal};
use onus_engine::Identity;

use crate::Host;

use answers::{Answer, refused};
use calls::Known;
use grants::Grants;
use lines::Lines;
use tools::{Call, Claim};

/// How many claims may wait at once.
const MAX_WAITING: usize = 8;

/// Serves the client at standard input and output until it goes.
pub fn serve(host: Host) -> Result<(), Refusal> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .max_blocking_threads(MAX_WAITING + 8)
        .build()
        .map_err(|error| Refusal::new(Code::Unexpected, format!("the server cannot start: {error}")))?;
    runtime.block_on(async {
        let server = Server::new(host);
        let lines = Lines::new(tokio::io::stdin(), tokio::io::stdout(), server.gone.clone());
        // A client that goes before it has said who it is has asked for nothing.
        if let Ok(running) = server.clone().serve(lines).await {
            // It went, or what carried it failed: either way it is gone.
            let _ = running.waiting().await;
        }
        server.farewell().await;
    });
    // All that changes something has ended. What may still run only reads: standard input, for which nobody waits.
    runtime.shutdown_background();
    Ok(())
}

#[derive(Clone, Debug)]
struct Server {
    host: Arc<Host>,
    tools: Arc<Vec<Tool>>,
    /// Calls take turns: one store is open at a time.
    turn: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    grants: Arc<Grants>,
    /// Who acted as this connection's own instance, and what its client is called.
    own: Arc<Mutex<Option<(Identity, String)>>>,
    /// The client has closed its end.
    gone: CancellationToken,
}

impl Server {
    fn new(host: Host) -> Server {
        Server {
            host: Arc::new(host),
            tools: Arc::new(tools::list()),
            turn: Arc::new(Semaphore::new(1)),
            waiting: Arc::new(Semaphore::new(MAX_WAITING)),
            grants: Arc::default(),
            own: Arc::default(),
            gone: CancellationToken::new(),
        }
    }

    /// Work on the store, when its turn comes.
    async fn in_turn<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Host) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let _turn = self.turn.acquire().await.map_err(failed)?;
        let host = Arc::clone(&self.host);
        tokio::task::spawn_blocking(move || work(&host)).await.map_err(failed)?
    }

    async fn call(&self, client: String, call: Call) -> Result<Answer, Refusal> {
        let name = client.clone();
        let (answer, known) = self.in_turn(move |host| calls::carry_out(host, &client, call)).await?;
        self.remember(known, name);
        Ok(answer)
    }

    async fn claim(
        &self,
        client: String,
        claim: Claim,
        id: RequestId,
        cancelled: CancellationToken,
    ) -> Result<Answer, Refusal> {
        let (turns, full) = match claim.wait {
            0 => (&self.turn, None),
            _ => (&self.waiting, Some(&self.waiting).filter(|waiting| waiting.available_permits() == 0)),
        };
        if full.is_some() {
            let why = format!("{MAX_WAITING} claims wait through this connection already");
            return Err(Refusal::new(Code::Limit, why).next("wait for one of them, or cancel it"));
        }
        let turn = turns.acquire().await.map_err(failed)?;
        // Closed to stop the waiting: what waits attends to its other end.
        let (stop, speaks) = std::io::pipe().map_err(failed)?;
        let (host, grants) = (Arc::clone(&self.host), Arc::clone(&self.grants));
        let (name, request) = (client.clone(), id.clone());
        let mut work = tokio::task::spawn_blocking(move || {
            let (answer, grant, known) = calls::claim(&host, &client, claim, &stop)?;
            if let Some(grant) = grant {
                grants.put(request, grant);
            }
            Ok((answer, known))
        });
        let outcome = tokio::select! {
            outcome = &mut work => outcome,
            () = self.nobody_listens(&cancelled) => {
                drop(speaks);
                work.await
            }
        };
        // Giving back takes a turn of its own.
        drop(turn);
        if let Ok(Ok((_, known))) = &outcome {
            self.remember(known.clone(), name.clone());
        }
        if cancelled.is_cancelled() || self.gone.is_cancelled() {
            self.give_back(&id, name).await;
        }
        outcome.map_err(failed)?.map(|(answer, _)| answer)
    }

    async fn nobody_listens(&self, cancelled: &CancellationToken) {
        tokio::select! {
            () = cancelled.cancelled() => {}
            () = self.gone.cancelled() => {}
        }
    }

    /// Releases what a cancelled request was granted, if it was granted something.
    async fn give_back(&self, id: &RequestId, client: String) {
        if let Some(grant) = self.grants.take(id) {
            // If that fails, the lease is as it was: bound to the client, and shown to it as its own.
            let _ = self.in_turn(move |host| grant.give_back(host, &client)).await;
        }
    }

    fn remember(&self, known: Known, client: String) {
        if let Some(identity) = known.filter(|known| known.instance.as_str() == self.host.connection) {
            *self.own.lock().unwrap_or_else(PoisonError::into_inner) = Some((identity, client));
        }
    }

    /// When the client has gone: what only this connection could end is given back.
    async fn farewell(&self) {
        let own = self.own.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A turn is taken in any case: what was cancelled just before is given back first. If giving back fails, the
        // leases last as long as the client's process.
        let _ = self
            .in_turn(move |host| match own {
                Some((identity, client)) => grants::give_back_all(host, &identity, &client),
                None => Ok(()),
            })
            .await;
    }
}

fn failed(error: impl std::fmt::Display) -> Refusal {
    Refusal::new(Code::Unexpected, format!("the server failed: {error}"))
}

fn client_of(context: &RequestContext<RoleServer>) -> String {
    context.client_info().map(|client| client.name).unwrap_or_default()
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
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
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
            return Err(ErrorData::invalid_params(format!("there is no tool '{}'", request.name), None));
        };
        let client = client_of(&context);
        let outcome = match understood {
            Ok(Call::Claim(claim)) => self.claim(client, claim, context.id, context.ct).await,
            Ok(call) => self.call(client, call).await,
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
        context: NotificationContext<RoleServer>,
    ) {
        if let Some(id) = cancelled.request_id {
            let info = context.peer.peer_info();
            let client = info.map(|info| info.client_info.name.clone()).unwrap_or_default();
            self.give_back(&id, client).await;
        }
    }
}
