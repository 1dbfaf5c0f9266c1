//! From the death of a bound holder to the exit of a process that waited for its task and has it, against what cannot be
//! avoided: to be told that a process ended, and to claim.
//!
//! The waiter is started and asleep before the holder is killed: what is measured is waking up, looking, one durable
//! commit and the end of the program. The claim it is compared with pays for its own start, too.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::Result;
use crate::fixture::{self, History};
use crate::measure::{Report, Target, Times};
use crate::place::{Place, Repository};

pub(crate) const ABOUT: &str = "kill -9 of a holder to another's `claim --next --wait` having the task, against a claim and a notice of the exit";

const ROUNDS: u64 = 5;
const KILLS: u64 = 10;

/// How long a waiter has to be idle before it counts as asleep.
const STILL: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn run(place: &Place) -> Result<Report> {
    let repository = fixture::repository(place, "recovery", 1, History::Fresh)?;
    let (mut recoveries, mut claims, mut notices) = (Times::default(), Times::default(), Times::default());
    for round in 0..ROUNDS {
        [&mut recoveries, &mut claims, &mut notices].into_iter().for_each(Times::next_round);
        for n in 0..KILLS {
            let instance = format!("i{round}-{n}");
            notices.add(notice()?);
            claims.time(|| repository.run(&place.onus, &instance, &["claim", "1"]))?;
            repository.run(&place.onus, &instance, &["release", "1"])?;
            recoveries.add(recovery(place, &repository, &instance)?);
        }
    }
    let least = claims.means().into_iter().zip(notices.means()).map(|(claim, notice)| claim + notice);
    let ratios = recoveries.means().iter().zip(least).map(|(recovery, least)| recovery / least).collect();
    let mut report = Report::default();
    report.note(format!("kill to the task        {}", recoveries.describe()));
    report.note(format!("onus claim              {}", claims.describe()));
    report.note(format!("notice of a process end {}", notices.describe()));
    report.check("recovery / (claim + notice)", ratios, Target::AtMost(2.0));
    Ok(report)
}

fn sleeper() -> Result<Child> {
    Ok(Command::new("sleep").arg("600").stdin(Stdio::null()).spawn()?)
}

/// From the kill to the kernel's word that it ended.
fn notice() -> Result<Duration> {
    let mut process = sleeper()?;
    let end = pidfd_open(Pid::from_child(&process), PidfdFlags::empty())?;
    let killed = Instant::now();
    process.kill()?;
    poll(&mut [PollFd::new(&end, PollFlags::IN)], None)?;
    let took = killed.elapsed();
    process.wait()?;
    Ok(took)
}

/// From the kill of the holder to the exit of the one that waited. The task is free afterwards.
fn recovery(place: &Place, repository: &Repository, instance: &str) -> Result<Duration> {
    let mut holder = sleeper()?;
    let pid = holder.id().to_string();
    let (first, second) = (format!("{instance}-held"), format!("{instance}-waited"));
    repository.run(&place.onus, &first, &["claim", "1", "--ttl", "8h", "--bind", &pid])?;
    let mut waiter =
        repository.command(&place.onus, &second).args(["claim", "--next", "--wait", "5m"]).spawn()?;
    wait_until_asleep(&mut waiter)?;
    let killed = Instant::now();
    holder.kill()?;
    let status = waiter.wait()?;
    let took = killed.elapsed();
    holder.wait()?;
    if !status.success() {
        return Err(format!("who waited got nothing: {status}").into());
    }
    repository.run(&place.onus, &second, &["release", "1"])?;
    Ok(took)
}

/// It attends to the holder's process, and has not moved for a while.
fn wait_until_asleep(waiter: &mut Child) -> Result<()> {
    let (began, process) = (Instant::now(), format!("/proc/{}", waiter.id()));
    let attends = || {
        let files = std::fs::read_dir(format!("{process}/fd")).into_iter().flatten();
        let mut links = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
        links.any(|link| link.to_string_lossy().contains("pidfd"))
    };
    let switches = || {
        let status = std::fs::read_to_string(format!("{process}/status")).unwrap_or_default();
        status.lines().find(|line| line.starts_with("voluntary_ctxt_switches")).map(str::to_owned)
    };
    while began.elapsed() < PATIENCE {
        if let Some(status) = waiter.try_wait()? {
            return Err(format!("who should wait ended: {status}").into());
        }
        let before = switches();
        std::thread::sleep(STILL);
        if attends() && switches() == before {
            return Ok(());
        }
    }
    Err("who should wait does not sleep".into())
}
