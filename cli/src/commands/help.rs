//! `reentry help`: the page of a subcommand with everything about it, and the page of the options that all have.

use clap::builder::{PossibleValuesParser, StyledStr};
use clap::{Arg, ArgAction, Args as _, Command};

use crate::args::Global;
use crate::exit::Exit;
use crate::output;

/// The page of the options that all subcommands have.
const CONNECTION: &str = "connection";

/// Show all about a command, or the options for connections
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A command, or `connection`
    topic: Option<String>,
}

/// Shows a page. `command` is the whole program.
pub(crate) fn run(args: &Args, command: Command) -> anyhow::Result<Exit> {
    output::write(page(args.topic.as_deref(), command).as_bytes())?;
    Ok(Exit::Success)
}

/// The page of the whole program, for a user who has typed nothing else.
pub(crate) fn overview(command: Command) -> anyhow::Result<Exit> {
    run(&Args { topic: None }, command)
}

fn page(topic: Option<&str>, command: Command) -> String {
    let page = match topic {
        None => command.clone().render_help(),
        Some(CONNECTION) => of_connection().render_long_help(),
        Some(name) => {
            let mut command = command.mut_args(|option| {
                let is_everywhere = is_everywhere(&option);
                option.hide(is_everywhere)
            });
            command.build();
            let found = command.find_subcommand_mut(name);
            found.map_or_else(StyledStr::new, Command::render_long_help)
        }
    };
    page.ansi().to_string()
}

/// The page of the options that all subcommands have.
fn of_connection() -> Command {
    let page = Command::new(CONNECTION).disable_help_flag(true);
    Global::augment_args(page)
        .about("The options of all commands: which servers, which login, which prefix")
        .help_template("{about}\n\n{options}")
}

/// Lets each subcommand have a short page, `-h` or `--help`, and a page with everything, `reentry help COMMAND`.
pub(crate) fn with_pages(command: Command) -> Command {
    let names = command.get_subcommands().map(|it| it.get_name().to_owned());
    let topics: Vec<_> = names.chain([CONNECTION.to_owned()]).collect();
    let topics = PossibleValuesParser::new(topics);
    command
        .disable_help_flag(true)
        .disable_help_subcommand(true)
        .after_help(format!("More: `reentry help COMMAND`. {ELSEWHERE}"))
        .mut_args(|option| {
            let is_everywhere = is_everywhere(&option);
            option.hide_short_help(is_everywhere)
        })
        .arg(short_help())
        .mut_subcommand("help", |help| {
            help.mut_arg("topic", |topic| {
                topic.value_parser(topics).hide_possible_values(true)
            })
        })
        .mut_subcommands(|verb| {
            let more = format!("More: `reentry help {}`. {ELSEWHERE}", verb.get_name());
            let codes = verb
                .get_after_long_help()
                .map(|codes| format!("{codes}\n\n"));
            let codes = codes.unwrap_or_default();
            let version = Arg::new("version")
                .short('V')
                .long("version")
                .action(ArgAction::Version);
            verb.disable_help_flag(true)
                .disable_version_flag(true)
                .after_help(more)
                .after_long_help(codes + ELSEWHERE)
                .arg(short_help())
                .arg(version.help("Print version").hide_short_help(true))
        })
}

const ELSEWHERE: &str = "Servers and login: `reentry help connection`.";

/// Whether an option of the program is on the page of the connections, instead of those of the subcommands.
fn is_everywhere(option: &Arg) -> bool {
    !["json", "help", "version"].contains(&option.get_id().as_str())
}

fn short_help() -> Arg {
    let help = Arg::new("help").short('h').long("help");
    let help = help.action(ArgAction::HelpShort).help("Print help");
    help.help_heading(None)
}
