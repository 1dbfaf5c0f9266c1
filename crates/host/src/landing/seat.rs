//! The seat of a target: one lander at a time, and one that lost the seat moves nothing.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use onus_core::command::{Act, Command, SeatAct, SeatTerms};
use onus_core::ids::Token;
use onus_core::refusal::{Code, Refusal};
use onus_core::seat::SeatName;
use onus_dispatch::Interrupts;
use onus_engine::{Answer, Identity, Request};
use onus_os::process;
use onus_store::Access;

use super::Landings;
use crate::Host;
use crate::host::on_task;

/// How often the seat is renewed while gates run.
const RENEW_EVERY: Duration = Duration::from_secs(15);

/// The seat of a target, until this is dropped. Gates may run for hours: meanwhile a thread renews the seat, and with it the lease
/// that the caller holds. It releases the seat at the end.
#[derive(Debug)]
pub struct Seated {
    pub(super) seat: SeatName,
    pub(super) token: Token,
    stop: Option<Sender<()>>,
    renewing: Option<JoinHandle<()>>,
}

impl Landings<'_> {
    /// Takes the seat of the target, waiting for it if necessary.
    pub fn take_seat(
        &mut self,
        patience: Duration,
        waiting: &mut dyn FnMut(&Refusal),
    ) -> Result<Seated, Refusal> {
        let seat: SeatName = format!("land:{}", self.target).parse()?;
        let terms = SeatTerms {
            process: Some(process::identify(std::process::id())?),
            worktree: self.host.place.as_ref().map(|place| place.root.to_string_lossy().into_owned()),
            ..SeatTerms::default()
        };
        let command = Command::OnSeat { seat: seat.clone(), act: SeatAct::Take(terms), force: None };
        // A token from the environment is that of a task, not of the seat.
        let identity = Identity { token: None, ..self.identity.clone() };
        let request = Request { identity, command, key: None };
        let reply = self.engine.run_or_wait(&request, patience, None, waiting)?;
        let Answer::Seat { seat: view, .. } = reply.answer else {
            return Err(Refusal::new(Code::Unexpected, "a seat was asked for, and the answer has none"));
        };
        let token = Token(view.token);
        let (stop, stopped) = mpsc::channel();
        let (host, by, name) = (self.host.reload()?, self.identity.clone(), seat.clone());
        let renewing = std::thread::spawn(move || {
            // Signals are handled by the thread that runs gates.
            Interrupts::elsewhere();
            while stopped.recv_timeout(RENEW_EVERY) == Err(RecvTimeoutError::Timeout) {
                // Failures are ignored, since the store compares the token before anything moves.
                drop(renew(&host, &by, &name, token));
            }
            // If it cannot be released, it lapses with this process.
            let release = on_seat(&by, &name, token, SeatAct::Release);
            drop(host.engine(Access::Write).and_then(|mut engine| engine.run(&release)));
        });
        Ok(Seated { seat, token, stop: Some(stop), renewing: Some(renewing) })
    }
}

fn renew(host: &Host, by: &Identity, seat: &SeatName, token: Token) -> Result<(), Refusal> {
    let mut engine = host.engine(Access::Write)?;
    engine.run(&on_seat(by, seat, token, SeatAct::Renew { ttl_ms: None }))?;
    // Also the task that the caller lands and still holds.
    if let Some((Some(task), _)) = &by.token {
        let act = Act::Renew { ttl_ms: None, progress: true };
        engine.run(&on_task(by.clone(), task.clone(), act))?;
    }
    Ok(())
}

fn on_seat(by: &Identity, seat: &SeatName, token: Token, act: SeatAct) -> Request {
    let command = Command::OnSeat { seat: seat.clone(), act, force: None };
    Request { identity: Identity { token: Some((None, token)), ..by.clone() }, command, key: None }
}

impl Seated {
    /// Makes a command conditional on still having the seat.
    pub(super) fn guard(&self, command: Command) -> Command {
        Command::Seated { seat: self.seat.clone(), token: self.token, command: Box::new(command) }
    }
}

impl Drop for Seated {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(renewing) = self.renewing.take() {
            drop(renewing.join());
        }
    }
}
