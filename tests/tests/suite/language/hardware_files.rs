//! Hardware that programs take from files: an example of each kind of cluster with its plan, and
//! every way in which a file can be wrong.

use std::path::Path;

use shardwise::build::from_disk;
use shardwise::explain::{Target, explain};
use shardwise::files::Files;
use shardwise::hardware::named_file::named;
use shardwise::lint::{Settings, lint};
use shardwise::sweep::{Grid, Source, sweep};
use shardwise::verify::{Setup, verify};
use shardwise::{Hardware, Options, Rates, hardware};
use shardwise_tests::snapshot::{plan_snapshot, snapshot};
use shardwise_tests::{drawn, files, root};

const FOLDER: &str = "tests/programs/hardware";

/// The examples' own files.
fn options() -> Options {
    Options { files: Files::read_by(|path| std::fs::read(root().join(path))), ..Options::default() }
}

#[test]
fn every_kind_of_cluster_has_a_file_and_a_program_with_its_plan() {
    let mut described: Vec<String> =
        files(FOLDER, ".toml").into_iter().map(|(name, _)| name).collect();
    for (name, text) in files(FOLDER, ".toml") {
        hardware::parse(&name, &text).unwrap_or_else(|e| panic!("{name}: {e}"));
    }
    for (name, source) in files(FOLDER, ".shard") {
        let path = format!("{FOLDER}/{name}.shard");
        let planned =
            shardwise::plan(&path, &source, &options()).unwrap_or_else(|e| panic!("{name}: {e}"));
        let again = shardwise::plan(&path, &planned.to_string(), &options())
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(again.to_string(), planned.to_string(), "{name}");
        let linted = lint(&path, &source, &options(), &Settings::default());
        assert!(!linted.has_errors(), "{name}");
        let verdict = verify(&path, &source, &options(), &Setup::default());
        assert_eq!(verdict.map(|verdict| verdict.mismatch.is_none()).ok(), Some(true), "{name}");
        let read: Vec<String> = named(&path, &source)
            .iter()
            .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
            .collect();
        described.retain(|described| !read.contains(described));
        plan_snapshot("hardware", &name, &planned);
    }
    assert_eq!(described, [""; 0], "files that no program names");
}

#[test]
fn a_file_is_read_by_every_command() {
    let path = format!("{FOLDER}/gpu-nodes.shard");
    let source = shardwise_tests::read(&path);
    let explanation =
        explain(&path, &source, &options(), &Target::Value("Out".to_owned()), &|_, _| ())
            .unwrap_or_else(|e| panic!("{e}"));
    snapshot("hardware", "gpu-nodes-explained", &explanation.to_string());
    let planned = shardwise::plan(&path, &source, &options()).unwrap_or_else(|e| panic!("{e}"));
    let json = planned.json();
    let nodes = json.mesh[0].nodes.clone().expect("X leaves the node");
    assert_eq!(
        (nodes.inside, nodes.nodes, planned.cost().axes[0].nodes.clone()),
        (8, 2, Some(nodes.clone()))
    );
    assert!(nodes.network_s > 0.0 && nodes.network_s < planned.report.comm_s);
    let sources = [Source { path, name: "gpu-nodes".to_owned(), text: source }];
    let grid = Grid::parse(&["X=8|16|32".to_owned()], &[], &["measured-h100,h100".to_owned()])
        .unwrap_or_else(|e| panic!("{e}"));
    let swept = sweep(&sources, &grid, &options(), &|_, _| ()).unwrap_or_else(|e| panic!("{e:?}"));
    assert_eq!((swept.points.len(), swept.planned), (6, 6));
    assert!(swept.points.iter().all(|point| point.plan.is_some()));
}

/// Programs that name the file whose text is given, and the messages about them.
const WRONG: &[(&str, &[u8])] = &[
    ("hardware \"hw.toml\"", b"[chip]\nbase = \"h100\"\nlink_bandwith = 370e9\n"),
    ("hardware \"hw.toml\"", b"[chip]\r\nbase = \"h100\"\r\nmemory = \"80GB\"\r\n"),
    ("hardware \"hw.toml\"", b"[chip]\nbase = \"h100\"\nmemory = 80\nlink_hop = 5\n"),
    ("hardware \"hw.toml\"", b"[chip]\nbase = \"h100\"\nmemory = -80e9\npod = [0]\n"),
    ("hardware \"hw.toml\"", b"[chip]\nbase = \"h100\"\ncontext = 90e9\n"),
    (
        "hardware \"hw.toml\"",
        b"[chip]\nbf16 = 989e9\nmemory = 80e6\nmemory_bandwidth = 3.35e9\nproduct = 1e-9\n",
    ),
    (
        "hardware \"hw.toml\"",
        b"[chip]\nbase = \"h100\"\nlink_fixed = 3.5\npod = []\nprice = \"2 EUR\"\n",
    ),
    ("hardware \"hw.toml\"", b"[chip]\nbase = \"h100\"\nallocator = -1\nproduct = 80\n"),
    ("hardware \"hw.toml\"", b"[chip]\nbf16 = inf\n[other]\nbase = \"chip\"\n"),
    ("hardware \"hw.toml\"", b"[chip]\nbase = \"h100\"\nfp8 = 1e14\ncontention = 1.2\n"),
    ("hardware \"hw.toml\"", b"[chip]\nbase = \"h100\"\npod = [8, 8]\n"),
    ("hardware \"hw.toml\"", b"[chip]\nbase = \"tpu-v5p\"\nlinks = \"switch\"\n"),
    ("hardware \"hw.toml\"", b"[chip\nbf16 = 1e15\n"),
    ("hardware \"hw.toml\"", b"bf16 = 1e15\n"),
    ("hardware \"hw.toml\"", b"[chip]\nmemory = 80e9\n"),
    ("hardware \"hw.toml\"", b""),
    ("hardware \"hw.toml\"", b"[chip]\nbase = \"\xff\"\n"),
    ("hardware \"hw.toml\"", b"[a]\nbase = \"b\"\n[b]\nbase = \"a\"\n"),
    ("hardware \"hw.toml\"", b"[chip]\nbase = \"chip\"\n"),
    ("hardware \"hw.toml\"", b"[h100]\nbase = \"b200\"\n"),
    ("hardware \"hw.toml\"", b"[a]\nbase = \"b200\"\n[b]\nbase = \"h100\"\n"),
    ("hardware chop from \"hw.toml\"", b"[chip]\nbase = \"b200\"\n"),
    ("hardware h100 from \"hw.toml\"", b"[chip]\nbase = \"b200\"\n"),
    ("hardware \"gone.toml\"", b""),
    ("hardware \"..\"", b""),
    ("hardware chip from", b""),
    ("hardware \"\"", b""),
    ("hardware \"hw.toml", b""),
    ("hardware \"hw.toml\"\nhardware h100", b"[chip]\nbase = \"b200\"\n"),
    (
        "hardware \"hw.toml\"\nmesh X=2 dcn",
        b"[chip]\nbf16 = 1e15\nlinks = \"switch\"\npod = [8]\nlink_bandwidth = 1e11\n",
    ),
];

fn reported(hardware: &str, options: &Options) -> String {
    let mesh = if hardware.contains("mesh") { "" } else { "mesh X=2\n" };
    let source = format!("{hardware}\n{mesh}dim I=8\ninput A[I_X]\nB = gelu(A)\noutput B[I_X]\n");
    shardwise::plan("folder/program.shard", &source, options)
        .map_or_else(|findings| drawn(&findings), |planned| planned.to_string())
}

#[test]
fn every_mistake_is_reported_in_the_program_and_in_the_file() {
    let mut all = String::new();
    for &(hardware, text) in WRONG {
        let read = move |path: &Path| match path.to_str() {
            Some("folder/hw.toml") => Ok(text.to_vec()),
            Some("folder/..") => Err(std::io::ErrorKind::IsADirectory.into()),
            _ => Err(std::io::ErrorKind::NotFound.into()),
        };
        let text =
            reported(hardware, &Options { files: Files::read_by(read), ..Options::default() });
        assert!(text.contains("SW"), "{hardware}: {text}");
        all.push_str(&text);
        all.push('\n');
    }
    snapshot("hardware", "mistakes-of-a-program-and-its-file", &all);
}

#[test]
fn what_the_chip_of_an_option_lacks_is_not_reported_of_the_program_s() {
    let options = Options {
        hardware: Some("trainium2".to_owned()),
        rates: Some(Rates::Measured),
        ..Options::default()
    };
    let source = "hardware h100\nmesh X=2\ndim I=8\ninput A[I_X]\noutput B[I_X] = gelu(A)\n";
    let planned = shardwise::plan("p", source, &options).unwrap_or_else(|e| panic!("{e}"));
    let warned = &planned.warnings.reports[0].diag;
    assert_eq!(warned.code, "SW411");
    assert_eq!(warned.labels[0].text, "the options name their own chip");
}

#[test]
fn a_number_with_a_unit_is_asked_for_without_it() {
    for value in ["80GB", "80 GB", "80e9 # bytes\nprice = free"] {
        let text = format!("[chip]\nbase = \"h100\"\nmemory = {value}\n");
        let findings = hardware::parse("hw.toml", &text).expect_err(value);
        let help = findings.reports[0].diag.help.clone().unwrap_or_default();
        assert!(help.contains("write a number without its unit, such as "), "{value}: {help}");
    }
}

#[test]
fn f32_is_not_faster_than_bf16() {
    let parse = |text: &str| hardware::parse("hw.toml", &format!("[chip]\n{text}\n"));
    for (text, line) in [
        ("base = \"h100\"\nf32 = 2e15", "f32"),
        ("base = \"h100\"\nbf16 = 4e14", "bf16"),
        ("bf16 = 9.89e14\nf32 = 2e15", "f32"),
    ] {
        let findings = parse(text).expect_err(text);
        let [report] = &findings.reports[..] else { panic!("{findings}") };
        assert!(report.diag.message.contains("FLOP/s in f32 are more than"), "{findings}");
        let whole = format!("[chip]\n{text}\n");
        let before = &whole[..report.diag.labels[0].span.start];
        assert!(before.ends_with(&format!("{line} = ")), "{text}: {before}");
    }
    for text in [
        "bf16 = 4.59e14\nf32 = 4.59e14",
        "f32 = 1.57e13\nfp8 = 1.25e14",
        "base = \"mi355x\"\nnetwork_bandwidth = 5e10",
    ] {
        assert!(parse(text).is_ok(), "{text}");
    }
    for preset in Hardware::preset_names().filter_map(Hardware::preset) {
        assert!(preset.f32_flops <= preset.bf16_flops, "{}", preset.name);
    }
}

#[test]
fn what_may_be_nothing_may_be_zero() {
    let text = "[chip]\nbase = \"h100\"\nallocator = 0\nlogit_bytes = 0\ncontext = 0\n\
        product_fixed = 0\nlink_saturation = 0\n";
    let chip = hardware::parse("hw.toml", text).unwrap_or_else(|e| panic!("{}", drawn(&e)));
    assert_eq!(chip[0].measured.allocator, Some(0.0));
    assert!(hardware::parse("hw.toml", "[chip]\nbase = \"h100\"\nproduct = 0\n").is_err());
}

#[test]
fn what_is_not_read_or_too_large_is_refused() {
    let nobody = reported("hardware \"hw.toml\"", &Options::default());
    assert!(nobody.contains("SW408") && nobody.contains("nothing reads files here"), "{nobody}");
    let large = Files::read_by(|_| Ok(vec![b'#'; 1 << 21]));
    let text = reported("hardware \"hw.toml\"", &Options { files: large, ..Options::default() });
    assert!(text.contains("SW408") && text.contains("larger than 1 MiB"), "{text}");
    let options = || Options { files: from_disk(), ..Options::default() };
    let otherwise = reported("hardware \"/etc/passwd\"", &options());
    assert!(otherwise.contains("SW408") && otherwise.contains("ends in `.toml`"), "{otherwise}");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("unread");
    std::fs::create_dir_all(folder.join("folder.toml")).expect("a folder can be made");
    let of =
        |name: &str| reported(&format!("hardware \"{}\"", folder.join(name).display()), &options());
    let below = of("folder.toml");
    assert!(below.contains("SW408") && below.contains("it is a folder"), "{below}");
    #[cfg(unix)]
    {
        // It may be there from the last run.
        let _ = std::os::unix::fs::symlink("/dev/zero", folder.join("endless.toml"));
        let endless = of("endless.toml");
        assert!(endless.contains("SW408") && endless.contains("no regular file"), "{endless}");
    }
}

#[test]
fn marks_and_line_ends_of_other_systems_are_read() {
    for text in [
        "\u{FEFF}[chip]\nbase = \"h100\"\n",
        "[chip]\r\nbase = \"h100\"\r\n",
        "[chip]\nbase = 'h100'",
    ] {
        let files = Files::read_by(move |_| Ok(text.as_bytes().to_vec()));
        assert!(
            reported("hardware chip from \"hw.toml\"", &Options { files, ..Options::default() })
                .starts_with("plan\n"),
            "{text:?}"
        );
    }
}

#[test]
fn a_name_that_is_given_otherwise_must_be_decided() {
    let known = hardware::parse("other.toml", "[chip]\nbase = \"b200\"\n")
        .unwrap_or_else(|e| panic!("{e}"));
    let files = Files::read_by(|_| Ok(b"[chip]\nbase = \"h100\"\n".to_vec()));
    let options = Options { files, known, ..Options::default() };
    let text = reported("hardware \"hw.toml\"", &options);
    assert!(text.contains("SW409") && text.contains("--hardware chip"), "{text}");
    let decided = reported(
        "hardware \"hw.toml\"",
        &Options { hardware: Some("chip".to_owned()), ..options.clone() },
    );
    assert!(decided.starts_with("plan\nhardware chip\n"), "{decided}");
    let preset = reported(
        "hardware \"hw.toml\"",
        &Options {
            hardware: Some("h200".to_owned()),
            files: Files::default(),
            known: Vec::new(),
            ..options
        },
    );
    assert!(
        preset.starts_with("plan\nhardware h200\n"),
        "a file that is not needed is not read: {preset}"
    );
}

#[test]
fn programs_of_two_folders_can_name_two_files_alike() {
    let files = Files::read_by(|path| {
        let base = if path.starts_with("fast") { "b200" } else { "h100" };
        Ok(format!("[chip]\nbase = \"{base}\"\n").into_bytes())
    });
    let text = "hardware \"hw.toml\"\nmesh X=8\ndim I=4096, J=4096, K=4096\n\
        input A[I, J_X], B[J_X, K]\nC = A *J B\noutput C[I, K]\n";
    let source = |folder: &str| Source {
        path: format!("{folder}/p.shard"),
        name: folder.to_owned(),
        text: text.to_owned(),
    };
    let grid = Grid::parse(&["X=8".to_owned()], &[], &[]).unwrap_or_else(|e| panic!("{e}"));
    let options = Options { files, ..Options::default() };
    let swept = sweep(&[source("fast"), source("slow")], &grid, &options, &|_, _| ())
        .unwrap_or_else(|e| panic!("{e:?}"));
    let comm: Vec<f64> =
        swept.points.iter().filter_map(|point| Some(point.plan.as_ref()?.cost.comm_s)).collect();
    assert!(comm.len() == 2 && comm[0] < comm[1], "{comm:?}");
}
