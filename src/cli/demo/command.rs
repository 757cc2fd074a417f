//! The order of the steps.

use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use super::{
    server::DemoServer,
    steps::{Answerer, Story, say},
};
use crate::cli::{console::Format, context::Context, exit::ExitStatus, failure::Failure};

/// Show the main job on a throw-away state directory
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  countersign demo
  countersign demo --approve

Starts a real server on a temporary state directory, runs one command in the sandbox and one
that the allowlist covers, has one refused, asks a person about another (on the approvals page,
by a link that it prints, or on the command line), checks the audit record and removes
everything again.")]
pub(crate) struct DemoArgs {
    /// Answer the question itself, over the API, as a second token
    #[arg(long)]
    approve: bool,
}

pub(crate) async fn run(context: &Context, args: DemoArgs) -> Result<ExitStatus, Failure> {
    let mut interruption = std::pin::pin!(interruption());
    let server = tokio::select! {
        server = DemoServer::open(context) => server?,
        () = interruption.as_mut() => return Err(interrupted()),
    };
    let answerer = if args.approve {
        Answerer::SecondToken
    } else {
        Answerer::Person
    };
    let told = tokio::select! {
        told = tell(context, &server, answerer) => told,
        () = interruption => Err(interrupted()),
    };
    context.console.end_progress();
    // The server stops and the directory goes, no matter what happened.
    let closed = server.close().await;
    told?;
    closed?;
    Ok(ExitStatus::SUCCESS)
}

async fn tell(context: &Context, server: &DemoServer, answerer: Answerer) -> Result<(), Failure> {
    let console = context.console;
    say(
        console,
        &format!(
            "a server runs on the throw-away state directory {}",
            server.state_dir().display()
        ),
    )?;
    let mut story = Story::new(context, server)?;
    story.sandboxed().await?;
    story.allowlisted().await?;
    story.denied().await?;
    story.asked(answerer).await?;
    story.verified().await?;
    say(
        console,
        "\nAll but the first ran on this machine itself; `countersign doctor` says with which rights they run.",
    )?;
    if console.format() == Format::Json {
        return console.document(&json!({"steps": story.into_steps()}));
    }
    console
        .line("\nA server to keep:\n  countersign init\n  countersign serve\n  countersign exec -- uname -a")
}

/// Ends when the demo is to end: its server must not stay behind.
async fn interruption() {
    let terminated = async {
        match signal(SignalKind::terminate()) {
            Ok(mut terminated) => {
                terminated.recv().await;
            }
            Err(_not_to_be_had) => std::future::pending().await,
        }
    };
    tokio::select! {
        _interrupted = tokio::signal::ctrl_c() => {}
        () = terminated => {}
    }
}

fn interrupted() -> Failure {
    Failure::new("interrupted", "the demo was interrupted").exit(ExitStatus::INTERRUPTED)
}
