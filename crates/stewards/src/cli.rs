//! Arguments. A doc comment here is the help.

mod bus;

pub use bus::{BusLog, BusVerb, KindArgs, Message};
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use stewards_core::bus::{KINDS, Kind, Wake, schema_line};

/// Stewards manages tickets and pull requests with coding agents until they are done.
#[derive(Debug, Parser)]
#[command(name = "stewards", version, disable_help_subcommand = true, arg_required_else_help = true)]
pub struct Cli {
    /// The data directory (default: STEWARDS_DIR, else the XDG data directory)
    #[arg(long, global = true, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Print JSON
    #[arg(long, global = true)]
    pub json: bool,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the whole story once, with a pretend Linear and GitHub and a scripted agent
    Demo(Demo),
    /// Run the daemon: in the foreground, or with `start` in the background
    #[command(args_conflicts_with_subcommands = true)]
    Serve {
        /// End when standard input closes
        #[arg(long, hide = true)]
        tied: bool,
        /// Print no link to the page
        #[arg(long, hide = true)]
        quiet: bool,
        #[command(subcommand)]
        verb: Option<ServeVerb>,
    },
    /// End every agent at once; they stay stopped, over restarts too, until `stewards resume`
    Stop {
        /// Every agent (one thread: stewards thread stop)
        #[arg(long, required = true)]
        all: bool,
    },
    /// Let agents go on after `stewards stop --all`
    Resume,
    /// Write a copy of everything that is known to a file; the daemon may run on
    Backup { file: PathBuf },
    /// Put a copy in the place of what is known; the daemon must not run
    Restore { file: PathBuf },
    /// List the agents that can be started, and how to install the others
    Agents,
    /// Texts that teach an agent a way of working
    Skill {
        #[command(subcommand)]
        verb: SkillVerb,
    },
    /// Where threads work
    Env {
        #[command(subcommand)]
        verb: EnvVerb,
    },
    /// Print a one-time link to the page
    Link,
    /// Write starting points for .bb/stewards into a repository
    Init(Init),
    /// Check the files below .bb/stewards of a repository, and that what they name is there
    Check {
        /// The repository (default: the current directory)
        path: Option<PathBuf>,
        /// Ask neither Linear nor GitHub
        #[arg(long)]
        offline: bool,
    },
    /// The files below .bb
    Config {
        #[command(subcommand)]
        verb: ConfigVerb,
    },
    /// Projects
    Project {
        #[command(subcommand)]
        verb: ProjectVerb,
    },
    /// Turn stewarding on for a project on this server
    Enable(OneProject),
    /// Turn stewarding off for a project on this server
    Disable(OneProject),
    /// List efforts
    List,
    /// Show one effort
    Show { key: String },
    /// Say why an effort was woken or stayed quiet
    Explain { key: String },
    /// Print the standing instructions of an effort's steward
    Brief { key: String },
    /// Print the command that starts a worker or a reviewer
    SpawnFlags {
        /// The effort (default: this thread's)
        key: Option<String>,
        #[arg(long, value_enum, default_value_t = RoleArg::Worker)]
        role: RoleArg,
    },
    /// Read a pull request afresh and judge its gate: exit 0 met, 1 not met, 69 unreadable
    Gate {
        /// owner/repo#N
        pull: String,
    },
    /// Merge a pull request whose gate is met
    Merge {
        /// owner/repo#N
        pull: String,
    },
    /// List what waits for you
    Needs,
    /// Say that an item is done
    Done { id: String },
    /// Threads
    Thread {
        #[command(subcommand)]
        verb: ThreadVerb,
    },
    /// The bus between threads
    #[command(after_help = kinds())]
    Bus {
        #[command(subcommand)]
        verb: BusVerb,
    },
    /// Log in at Linear or GitHub, as yourself
    Login(Login),
    /// Forget a login
    Logout {
        #[arg(value_enum)]
        service: ServiceArg,
    },
    /// Say who you are at Linear and GitHub: exit 1 if a login is of no use
    Whoami,
    /// Show how everything stands: daemon, logins, agents, projects, disk, what needs you
    Status,
    /// Read Linear as whoever is logged in
    Linear {
        #[command(subcommand)]
        verb: LinearVerb,
    },
    /// Print the addresses and secrets for webhooks; `install` sets them up where your login may
    Hooks {
        #[command(subcommand)]
        verb: Option<HooksVerb>,
    },
    /// Show what was asked of Linear and GitHub, and what is left of their quotas
    Usage {
        /// Requests, of the last hour
        #[arg(long, required = true)]
        api: bool,
    },
    /// Say what the running daemon was built from
    Build,
    /// Run a pretend Linear and GitHub, for trying playbooks: needs a directory of its own (--dir)
    Twin(Twin),
    /// The agent of the demo and of the tests
    #[command(hide = true)]
    ScriptedAgent,
}

/// From the kind table: each kind is a verb.
fn kinds() -> String {
    let line = |kind: &Kind| {
        let owes = if kind.ack { '*' } else { ' ' };
        let steers = if kind.wake == Wake::Immediate { '!' } else { ' ' };
        format!("  {owes}{steers} {}", schema_line(kind))
    };
    let all: Vec<String> = KINDS.iter().map(line).collect();
    format!("Kinds, each a verb (* owes an answer, ! goes into a live turn):\n{}", all.join("\n"))
}

#[derive(Debug, Args)]
pub struct Demo {
    /// Press the Merge button too, and end when the ticket is done
    #[arg(long)]
    pub yes: bool,
    /// The agent that does the work, which has to be installed and logged in (default: one that follows a script)
    #[arg(long, value_name = "PROVIDER[/MODEL[/LEVEL]]")]
    pub agent: Option<String>,
    /// Seconds without any news after which it is said to be stuck (default: 120, and 1800 with --agent)
    #[arg(long)]
    pub patience: Option<u64>,
}

#[derive(Debug, Args)]
pub struct Init {
    /// The repository (default: the current directory)
    pub path: Option<PathBuf>,
    /// The key of the Linear team
    #[arg(long)]
    pub team: String,
    /// provider/model/level of stewards
    #[arg(long, default_value = "claude-code")]
    pub steward: String,
    /// provider/model/level of workers
    #[arg(long, default_value = "claude-code")]
    pub worker: String,
    /// provider/model/level of reviewers
    #[arg(long, default_value = "claude-code")]
    pub reviewer: String,
}

#[derive(Debug, Args)]
pub struct OneProject {
    /// The project's name or id (default: the only one)
    #[arg(long)]
    pub project: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum ProjectVerb {
    /// Add a project: by its name, repository and remote, or by a checkout of it
    Add {
        /// A name, or the path of a checkout whose `origin` says the rest
        name: String,
        /// owner/name
        #[arg(long, requires = "remote")]
        repo: Option<String>,
        /// What git clone takes
        #[arg(long, requires = "repo")]
        remote: Option<String>,
    },
    /// List projects
    List,
    /// Show one project
    Show {
        /// Its name or id
        name: String,
    },
    /// Delete a project with its threads and all that is known of its efforts
    Delete {
        /// Its name or id
        name: String,
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, Subcommand)]
pub enum LinearVerb {
    /// Show a ticket with its comments
    Issue {
        /// Its key, such as ENG-12
        key: String,
    },
    /// Look for tickets, the one that changed last first
    Search {
        /// Words that all stand in title or description
        text: Vec<String>,
        /// A team's key
        #[arg(long)]
        team: Option<String>,
        /// A state, by name
        #[arg(long)]
        state: Option<String>,
        /// me, nobody, or somebody's name or address
        #[arg(long)]
        assignee: Option<String>,
        /// What is over, too
        #[arg(long)]
        all: bool,
        /// So many at most, up to 100 (default: 20)
        #[arg(long)]
        limit: Option<u32>,
    },
    /// Ask a GraphQL query that changes nothing
    Query {
        query: String,
        /// A JSON object
        #[arg(long)]
        variables: Option<String>,
    },
}

#[derive(Debug, Subcommand)]
pub enum HooksVerb {
    /// Have every team and repository of the projects call this server
    Install {
        /// The https address under which this server is reached from outside; it is kept
        #[arg(long)]
        url: Option<String>,
    },
}

#[derive(Debug, Subcommand)]
pub enum ConfigVerb {
    /// Print the JSON Schema of a file, for editors
    Schema {
        #[arg(value_enum)]
        file: SchemaArg,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum SchemaArg {
    /// .bb/stewards/project.json
    Project,
    /// .bb/stewards/roles.json
    Roles,
    /// .bb/repos.json
    Repos,
    /// The front matter of .bb/stewards/playbooks/*.md
    Playbook,
}

#[derive(Debug, Subcommand)]
pub enum ServeVerb {
    /// Start it in the background and wait until it serves
    Start,
    /// End it and the agents that it runs
    Stop,
    /// Say whether it runs
    Status,
    /// Print the end of its log
    Logs {
        /// So many lines
        #[arg(short = 'n', default_value_t = 100)]
        lines: usize,
    },
}

#[derive(Debug, Subcommand)]
pub enum SkillVerb {
    /// List the skills of a project
    List {
        /// The project (default: this thread's, else the only one)
        #[arg(long)]
        project: Option<String>,
    },
    /// Print one
    Show {
        name: String,
        #[arg(long)]
        project: Option<String>,
    },
}

#[derive(Debug, Subcommand)]
pub enum EnvVerb {
    /// List where threads work, with what it takes on the disk
    List,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum ServiceArg {
    Linear,
    Github,
}

impl From<ServiceArg> for stewards_sources::Service {
    fn from(arg: ServiceArg) -> Self {
        match arg {
            ServiceArg::Linear => stewards_sources::Service::Linear,
            ServiceArg::Github => stewards_sources::Service::GitHub,
        }
    }
}

#[derive(Debug, Args)]
pub struct Login {
    #[arg(value_enum)]
    pub service: ServiceArg,
    /// Read a key or token from standard input
    #[arg(long, conflicts_with_all = ["web", "client_id"])]
    pub with_token: bool,
    /// In the browser, also where `gh` is logged in
    #[arg(long)]
    pub web: bool,
    /// The id of an application that is registered with the service
    #[arg(long, value_name = "ID")]
    pub client_id: Option<String>,
    /// Print the address and open nothing
    #[arg(long)]
    pub no_browser: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum RoleArg {
    Worker,
    Reviewer,
    /// One that belongs to no effort
    Thread,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum PermissionArg {
    Full,
    AcceptEdits,
    Ask,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Switch {
    On,
    Off,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum ModeArg {
    Start,
    Auto,
    Steer,
    SteerIfActive,
    QueueIfActive,
}

#[derive(Debug, Subcommand)]
pub enum ThreadVerb {
    /// Start a thread; a worker under a steward, a reviewer under a worker
    Spawn(Spawn),
    /// Send a thread a message
    Tell {
        id: String,
        /// What to say
        #[arg(required_unless_present = "message_file")]
        text: Option<String>,
        /// A regular file with it instead
        #[arg(long, conflicts_with = "text")]
        message_file: Option<PathBuf>,
        #[arg(long, value_enum, default_value_t = ModeArg::Auto)]
        mode: ModeArg,
    },
    /// List threads
    List {
        /// Archived ones too
        #[arg(long)]
        all: bool,
    },
    /// Show a thread with its messages and the end of its transcript
    Show { id: String },
    /// Print a thread's transcript
    Log {
        id: String,
        /// The newest so many lines
        #[arg(short = 'n', default_value_t = 200)]
        lines: u32,
        /// Go on as it grows
        #[arg(long, short)]
        follow: bool,
    },
    /// Wait until a thread rests: exit 0 idle or never begun, 1 failed or waiting for something, 75 still at work
    Wait {
        id: String,
        /// Seconds
        #[arg(long, default_value_t = 600)]
        timeout: u64,
    },
    /// Stop what a thread runs; what waits for it waits for the next message
    Stop { id: String },
    /// Put a thread away, with all whose life it owns
    Archive {
        id: String,
        /// Also where others go with it
        #[arg(long)]
        yes: bool,
    },
    /// Bring a thread back
    Unarchive { id: String },
    /// Delete a thread with every descendant, transcripts and all
    Delete {
        id: String,
        #[arg(long)]
        yes: bool,
    },
    /// Try a failed turn again
    Retry { id: String },
    /// Have an idle thread's agent make its context smaller
    Compact { id: String },
    /// Start a thread that goes on with what another one knows, in the same place
    Fork {
        id: String,
        #[arg(long)]
        title: Option<String>,
        /// A regular file with what it is to do
        #[arg(long)]
        prompt_file: PathBuf,
    },
    /// Mark a thread as read
    Read { id: String },
    /// Mark a thread as not read
    Unread { id: String },
    /// Change a thread
    Update {
        id: String,
        #[arg(long)]
        title: Option<String>,
        /// What its agent may do without asking
        #[arg(long, value_enum)]
        permission: Option<PermissionArg>,
        /// Whether its parent hears of its ended turns
        #[arg(long, value_enum)]
        parent_notifications: Option<Switch>,
        /// A mark of another program, as JSON or plain words; an empty value takes it away (can be repeated)
        #[arg(long, value_name = "NAME=VALUE")]
        metadata: Vec<String>,
    },
    /// List the messages of a thread that no turn has begun with
    Queue {
        id: String,
        /// Take this one back
        #[arg(long, value_name = "MESSAGE")]
        drop: Option<String>,
    },
    /// What agents ask and wait for
    #[command(args_conflicts_with_subcommands = true)]
    Interactions {
        /// Of one thread (default: all)
        thread: Option<String>,
        #[command(subcommand)]
        verb: Option<InteractionVerb>,
    },
}

#[derive(Debug, Subcommand)]
pub enum InteractionVerb {
    /// Answer one: by an option's number or words, `allow`, `deny`, or in your own words where it takes them
    Answer {
        id: String,
        #[arg(required = true, trailing_var_arg = true)]
        choice: Vec<String>,
    },
}

#[derive(Debug, Args)]
pub struct Spawn {
    #[arg(long, value_enum, default_value_t = RoleArg::Thread)]
    pub role: RoleArg,
    #[arg(long)]
    pub title: String,
    /// A regular file with what it is to do
    #[arg(long)]
    pub prompt_file: Option<PathBuf>,
    /// provider/model/level
    #[arg(long)]
    pub model: Option<String>,
    /// Whose child it is (default: this thread's)
    #[arg(long)]
    pub parent: Option<String>,
    /// The thread that it is archived with (default: its parent)
    #[arg(long)]
    pub owner: Option<String>,
    /// The project of a thread without a parent (default: the only one)
    #[arg(long)]
    pub project: Option<String>,
    /// worktree, checkout, or the path of a directory
    #[arg(long)]
    pub environment: Option<String>,
    /// The repository of its worktree, as owner/name (default: the project's primary one)
    #[arg(long)]
    pub repo: Option<String>,
    #[arg(long, value_enum)]
    pub permission: Option<PermissionArg>,
    /// Whether its parent hears of its ended turns (default: on)
    #[arg(long, value_enum)]
    pub parent_notifications: Option<Switch>,
    /// Leave it out of the board
    #[arg(long)]
    pub hidden: bool,
}

#[derive(Debug, Args)]
pub struct Twin {
    /// Its port on loopback (default: a free one, which is kept)
    #[arg(long)]
    pub port: Option<u16>,
    #[arg(long, hide = true)]
    pub config: Option<PathBuf>,
    /// End when standard input closes
    #[arg(long, hide = true)]
    pub tied: bool,
}
