use onus_core::actor::InstanceId;
use onus_core::command::Command;
use onus_core::refusal::{Refusal, Step};
use onus_engine::Answer;
use onus_os::process;
use onus_store::Access;
use serde_json::json;

use crate::args::parse;
use crate::context::Context;
use crate::output::escape_line;
use crate::render::local_time;

/// List and register instances: which process acts as which actor
///
/// Without a command, it lists them.
#[derive(clap::Subcommand, Debug)]
pub(crate) enum Verb {
    /// List known instances, most recently seen first
    List,
    /// Register a running process: everything it starts acts as this instance
    Register {
        /// The process; default: the one that started onus
        #[arg(long, value_name = "PID")]
        pid: Option<u32>,
        /// The instance's name, one per conversation; default: derived from the process
        #[arg(long, value_name = "NAME", value_parser = parse::<InstanceId>)]
        instance: Option<InstanceId>,
    },
}

pub(crate) fn run(context: &Context, verb: Option<Verb>) -> super::Result {
    match verb.unwrap_or(Verb::List) {
        Verb::List => list(context),
        Verb::Register { pid, instance } => register(context, pid, instance),
    }
}

fn register(context: &Context, pid: Option<u32>, instance: Option<InstanceId>) -> super::Result {
    let mut engine = context.host.engine(Access::Write)?;
    let identity = context.host.identity(&mut engine)?;
    let pid = match pid {
        Some(pid) => pid,
        None => process::ancestry().get(1).map_or_else(std::process::id, |parent| parent.pid),
    };
    if pid == 1 {
        let message = "process 1 starts every other process here, so it cannot be one caller";
        return Err(Refusal::usage(message).next(Step::plain("register the process of one conversation")));
    }
    let process = process::identify(pid)?;
    let instance = match instance {
        Some(instance) => instance,
        None => format!("process:{}:{}", process.pid, process.start).parse()?,
    };
    let command = Command::RegisterInstance { actor: identity.actor.clone(), instance, process, group: None };
    let reply = engine.run(&onus_engine::Request { identity, command, key: None })?;
    let Answer::Instance(view) = &reply.answer else { return Err(super::unexpected()) };
    context.out.reply(&reply, json!(view), || {
        format!(
            "process {pid} and everything it starts act as {} ({})",
            view.actor,
            escape_line(&view.instance)
        )
    });
    Ok(())
}

fn list(context: &Context) -> super::Result {
    let instances = context.host.engine(Access::Read)?.instances(200)?;
    context.out.document_or(json!({ "instances": instances }), &[], || {
        for instance in instances {
            let process = match (&instance.process, instance.alive) {
                (Some(process), Some(true)) => format!("process {} lives", process.pid),
                (Some(process), Some(false)) => format!("process {} is gone", process.pid),
                (Some(process), None) => format!("process {} cannot be seen from here", process.pid),
                (None, _) => String::new(),
            };
            let (actor, name) = (&instance.actor, escape_line(&instance.instance));
            context.out.line(
                format!("{actor}  {name}  seen {}  {process}", local_time(&instance.seen_at)).trim_end(),
            );
        }
    });
    Ok(())
}
