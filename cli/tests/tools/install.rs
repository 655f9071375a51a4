//! Each way to install the command, as far as it can be run without a release on the network: the
//! package for npm, the Debian package, the archive with its checksum and what installs it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::{SHARDWISE, empty_folder, root, text};
use crate::require;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The target of the archives that this system installs.
const TARGET: &str = "x86_64-unknown-linux-musl";

fn run(command: &mut Command) -> Output {
    command.output().expect("the command starts")
}

/// What a command prints, which must succeed.
fn printed(command: &mut Command) -> String {
    let output = run(command);
    let printed = text(&output.stdout);
    assert!(output.status.success(), "{command:?}:\n{printed}{}", text(&output.stderr));
    printed
}

fn script(name: &str) -> Command {
    Command::new(root().join("cli/release").join(name))
}

/// The command without what debuggers read, which is most of it.
fn stripped(folder: &Path) -> PathBuf {
    let binary = folder.join("shardwise");
    printed(Command::new("strip").arg("-o").arg(&binary).arg(SHARDWISE));
    binary
}

/// A command plans a program.
fn plans(command: &mut Command) {
    let plan = printed(command.arg("plan").arg(root().join("tests/programs/fsdp_tp.shard")));
    assert!(plan.starts_with("plan\nhardware tpu-v5p\n"), "{plan}");
}

/// A folder with the releases of this version, as they are on the network.
fn releases(folder: &Path) -> String {
    let out = folder.join(format!("releases/v{VERSION}"));
    let binary = stripped(folder);
    let name = printed(script("archive.sh").arg(TARGET).arg(binary).arg(out));
    assert_eq!(name, format!("shardwise-v{VERSION}-{TARGET}.tar.gz\n"));
    format!("file://{}", folder.join("releases").display())
}

/// `PATH` without any folder that has a `shardwise`.
fn path_without_shardwise() -> std::ffi::OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).filter(|folder| !folder.join("shardwise").exists());
    std::env::join_paths(folders).expect("they were joined before")
}

#[test]
fn npx_runs_the_command() {
    require(&["node"]);
    let folder = empty_folder("npm");
    let given = format!("linux-x64={}", stripped(&folder).display());
    let packed = folder.join("packed");
    let pack = root().join("cli/npm/pack.js");
    let archives = printed(Command::new("node").arg(pack).arg(&packed).arg(given));
    let user = folder.join("user");
    std::fs::create_dir(&user).expect("a folder can be made");
    let options = ["install", "--offline", "--no-audit", "--no-fund", "--no-package-lock"];
    printed(
        Command::new("npm")
            .args(options)
            .args(archives.lines().map(|archive| packed.join(archive)))
            .current_dir(&user),
    );
    let npx = || {
        let mut npx = Command::new("npx");
        npx.args(["--offline", "shardwise"]).current_dir(&user);
        npx
    };
    assert_eq!(printed(npx().arg("--version")), format!("shardwise {VERSION}\n"));
    let package = user.join("node_modules/shardwise");
    for file in ["man/shardwise-plan.1", "completions/shardwise.bash", "completions/_shardwise"] {
        assert!(package.join(file).is_file(), "{file}");
    }
    plans(&mut npx());
    let wrong = run(npx().args(["plan", "missing.shard"]));
    assert_eq!(wrong.status.code(), Some(2), "the exit status is passed on");

    std::fs::remove_dir_all(user.join("node_modules/@shardwise")).expect("it is there");
    let missing = run(npx().arg("--version"));
    let error = text(&missing.stderr);
    assert!(error.contains("@shardwise/linux-x64 is not installed"), "{error}");
}

#[test]
fn the_debian_package_has_the_command_its_pages_and_completions() {
    require(&["cargo-deb", "dpkg-deb"]);
    let folder = empty_folder("deb");
    // `cargo deb` looks for the command where a release is built.
    let target = folder.join("target");
    std::fs::create_dir_all(target.join("release")).expect("a folder can be made");
    let binary = stripped(&target.join("release"));
    printed(script("pages.sh").arg(binary).arg(root().join("target/pages")));
    let package = folder.join("shardwise.deb");
    printed(
        Command::new("cargo")
            .args(["deb", "-p", "shardwise-cli", "--no-build", "--no-strip", "--fast", "--output"])
            .arg(&package)
            .env("CARGO_TARGET_DIR", &target)
            .current_dir(root()),
    );
    let fields = printed(Command::new("dpkg-deb").arg("--field").arg(&package));
    assert!(
        fields.contains("Package: shardwise\n") && fields.contains("Depends: libc6"),
        "{fields}"
    );
    let installed = folder.join("installed");
    printed(Command::new("dpkg-deb").arg("--extract").arg(package).arg(&installed));
    plans(&mut Command::new(installed.join("usr/bin/shardwise")));
    for file in [
        "man/man1/shardwise.1.gz",
        "man/man1/shardwise-plan.1.gz",
        "bash-completion/completions/shardwise",
        "zsh/vendor-completions/_shardwise",
        "fish/vendor_completions.d/shardwise.fish",
        "doc/shardwise/copyright",
        "doc/shardwise/docs/tutorial.md",
    ] {
        let length = std::fs::metadata(installed.join("usr/share").join(file)).expect(file).len();
        assert!(length > 100, "{file}: {length} bytes");
    }
}

#[test]
fn a_release_is_installed_if_its_checksum_is_right() {
    require(&["curl"]);
    let folder = empty_folder("install");
    let releases = releases(&folder);
    let user = folder.join("user/bin");
    let install = || {
        let mut install = script("install.sh");
        install.env("SHARDWISE_RELEASES", &releases).env("SHARDWISE_FOLDER", &user);
        install
    };
    let command = user.join("shardwise");
    assert_eq!(printed(&mut install()), format!("{}\n", command.display()));
    plans(&mut Command::new(&command));
    for file in [
        "man/man1/shardwise-plan.1",
        "bash-completion/completions/shardwise",
        "zsh/site-functions/_shardwise",
        "fish/vendor_completions.d/shardwise.fish",
    ] {
        assert!(folder.join("user/share").join(file).is_file(), "{file}");
    }

    // The hooks install it once where there is none.
    let hook = |releases: &str| {
        let mut hook = script("run.sh");
        hook.env("PATH", path_without_shardwise())
            .env("SHARDWISE_CACHE", folder.join("cache"))
            .env("SHARDWISE_RELEASES", releases);
        hook
    };
    plans(&mut hook(&releases));
    plans(&mut hook("file:///nowhere"));

    std::fs::remove_file(&command).expect("it is there");
    let archive = folder.join(format!("releases/v{VERSION}/shardwise-v{VERSION}-{TARGET}.tar.gz"));
    let mut bytes = std::fs::read(&archive).expect("it is there");
    bytes[1000] ^= 1;
    std::fs::write(&archive, bytes).expect("it can be written");
    let refused = run(&mut install());
    assert!(!refused.status.success() && !command.exists());
    assert!(text(&refused.stderr).contains("nothing is installed"), "{}", text(&refused.stderr));
    std::fs::remove_file(archive).expect("it is there");
    let missing = run(&mut install());
    let error = text(&missing.stderr);
    assert!(error.contains("error: cannot download file://"), "{error}");
    assert!(error.contains("no release") && error.contains("cargo install --locked"), "{error}");
    let hook = run(hook(&releases).env("SHARDWISE_CACHE", folder.join("empty")).arg("--version"));
    assert!(!hook.status.success() && text(&hook.stderr).contains("no release"));
}

#[test]
fn the_action_installs_a_release() {
    require(&["bash", "curl"]);
    let folder = empty_folder("action");
    let listed = folder.join("path");
    // Not the folder that the release is packed in: the action makes a folder `shardwise` here.
    let temporary = folder.join("runner");
    let step = crate::ci::step("Install shardwise");
    printed(
        Command::new("bash")
            .args(["--noprofile", "--norc", "-eo", "pipefail", "-c", &step])
            .env("PATH", path_without_shardwise())
            .env("SHARDWISE_RELEASES", releases(&folder))
            .env("GITHUB_ACTION_PATH", root())
            .env("GITHUB_PATH", &listed)
            .env("RUNNER_TEMP", &temporary),
    );
    let listed = std::fs::read_to_string(listed).expect("a folder is added to PATH");
    assert_eq!(Path::new(listed.trim()), temporary.join("shardwise"));
    plans(&mut Command::new(Path::new(listed.trim()).join("shardwise")));
}

#[test]
fn every_package_has_the_version_of_the_command() {
    let read = |path: &str| std::fs::read_to_string(root().join(path)).expect(path);
    let npm: serde_json::Value = serde_json::from_str(&read("cli/npm/package.json")).expect("JSON");
    assert_eq!(npm["version"], VERSION);
    let systems = npm["optionalDependencies"].as_object().expect("packages of systems");
    let workflow = read(".github/workflows/release.yml");
    for (package, version) in systems {
        assert_eq!(version, VERSION, "{package}");
        let system = package.strip_prefix("@shardwise/").expect("a package of ours");
        assert!(workflow.contains(&format!("system: {system}, ")), "{system} is not built");
        assert!(
            workflow.contains(&format!(" {system}=binary/{system}/")),
            "{system} is not packed"
        );
    }
    assert_eq!(workflow.matches("{ system: ").count(), systems.len());
    let install = read("cli/release/install.sh");
    assert!(install.contains(&format!("${{SHARDWISE_VERSION:-{VERSION}}}")));
    let name = "shardwise-v{ version }-{ target }.tar.gz";
    assert!(
        read("cli/Cargo.toml").contains(name) && install.contains("shardwise-v$version-$target")
    );
    let targets = install.lines().filter_map(|line| line.split("target=").nth(1));
    let targets: Vec<&str> = targets.filter_map(|rest| rest.split(' ').next()).collect();
    assert_eq!(targets.len(), systems.len());
    for target in targets {
        assert!(workflow.contains(&format!("target: {target}, ")), "{target} is not built");
    }
}

#[test]
fn the_workflow_and_the_action_have_no_errors() {
    require(&["check-jsonschema"]);
    let check = |schema: &str, file: &str| {
        printed(
            Command::new("check-jsonschema")
                .args(["--builtin-schema", schema, file])
                .current_dir(root()),
        );
    };
    check("vendor.github-workflows", ".github/workflows/release.yml");
    check("vendor.github-actions", "action.yml");
}
