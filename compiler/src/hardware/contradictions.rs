//! What figures of a chip contradict each other, each of them plausible alone.

use shardwise_ir::hardware::{Hardware, Wraparound};
use toml::{Spanned, Value};

use super::{Reader, Table};
use crate::display::units;

impl Reader {
    /// Reports a driver that takes all of the memory, at the later of the two lines.
    pub(super) fn context(&mut self, hardware: &mut Hardware, table: &Table) {
        let sizes = hardware.measured.context_bytes.zip(hardware.hbm_bytes);
        let Some((context, memory)) = sizes.filter(|(context, memory)| context >= memory) else {
            return;
        };
        let lines =
            table.iter().filter(|(key, _)| ["context", "memory"].contains(&key.get_ref().as_str()));
        let Some(span) = lines.map(|(_, value)| value.span()).max_by_key(|span| span.start) else {
            return;
        };
        let message = format!(
            "the driver takes {} of a memory of {}",
            units::bytes(context),
            units::bytes(memory)
        );
        self.wrong(
            message,
            span,
            "`context` is what `memory` has less for programs, such as 1.5e9",
        );
        hardware.measured.context_bytes = None;
    }

    /// Reports edges of a torus where chips have a switch, at the line that says so.
    pub(super) fn pod_of_switch(&mut self, hardware: &mut Hardware, line: Option<&Spanned<Value>>) {
        let is_torus = hardware.wraparound != Wraparound::Switched || hardware.pod.len() < 2;
        let Some(line) = line.filter(|_| !is_torus) else { return };
        let edges = hardware.pod.len();
        let message = format!("a pod of {edges} edges is a torus, and these links are a switch");
        let help = "write how many chips a switch connects, such as `pod = [8]`, or \
            `links = \"torus\"`";
        self.wrong(message, line.span(), help);
        hardware.pod.clear();
    }

    /// Reports products that are slower in a narrower dtype, which no chip would run in it.
    pub(super) fn slower_when_narrower(&mut self, hardware: &Hardware, table: &Table) {
        self.faster_in_f32(hardware, table);
        let pairs = [
            (("fp8", hardware.fp8_flops), ("bf16", hardware.bf16_flops)),
            (("fp4", hardware.fp4_flops), ("fp8", hardware.fp8_flops)),
        ];
        for ((narrow, slow), (wide, fast)) in pairs {
            let line = table.iter().find(|(key, _)| key.get_ref() == narrow);
            let (Some((_, line)), Some(slow), Some(fast)) = (line, slow, fast) else { continue };
            if slow < fast {
                let message =
                    format!("{slow:e} FLOP/s in {narrow} are fewer than {fast:e} in {wide}");
                let help = format!(
                    "give `{narrow}` at least those of `{wide}`, or leave it out: a chip without \
                        units for {narrow} computes in {wide}"
                );
                self.wrong(message, line.span(), help);
            }
        }
    }

    /// Reports f32 above bf16, at the line of f32, else of bf16. Equal rates are those of chips
    /// that multiply f32 in bf16; a chip without bf16 has no other rate to compare with.
    fn faster_in_f32(&mut self, hardware: &Hardware, table: &Table) {
        let rates = hardware.f32_flops.zip(hardware.bf16_flops);
        let Some((f32_flops, bf16_flops)) = rates.filter(|(wide, narrow)| wide > narrow) else {
            return;
        };
        let line = |key: &str| table.iter().find(|(name, _)| name.get_ref() == key);
        let Some((_, line)) = line("f32").or_else(|| line("bf16")) else { return };
        let message = format!("{f32_flops:e} FLOP/s in f32 are more than {bf16_flops:e} in bf16");
        let help = "give `f32` at most those of `bf16`: on a GPU the rate of TF32, without \
            sparsity; on a chip that multiplies f32 in bf16 the same rate";
        self.wrong(message, line.span(), help);
    }
}
