//! Right sides of random statements: operations on the values so far.

use super::{DIMS, I, J, L, Left, M, MOST_BITS, N, PLAIN, Right, Sketch, U, V, Value, union};

impl Sketch<'_> {
    pub(super) fn element_wise(&mut self, a: &Value) -> Right {
        let b = self.any_value();
        let (a_name, b_name) = (&a.name, &b.name);
        let text = match self.dice.roll(5) {
            0 if a_name != b_name => format!("{a_name} - {b_name}"),
            1 => format!("maximum({a_name}, {b_name})"),
            2 if b.declared => format!("{a_name} / {b_name}"),
            _ => format!("{a_name} + {b_name}"),
        };
        Right::new(union(a, &b), text, a.bits.max(b.bits) + 1.0)
    }

    pub(super) fn reduction(&mut self, a: &Value) -> Right {
        let function = *self.dice.pick(&["sum", "max", "min", "mean"]);
        let over = *self.dice.pick(&a.dims.clone());
        if a.dims.len() < 2 {
            return self.function(a);
        }
        let kept = a.dims.iter().copied().filter(|&dim| dim != over).collect();
        Right::new(kept, format!("{function}_{}({})", DIMS[over], a.name), a.bits + 13.0)
    }

    /// Dimensions that become others, as far as there are such; else a function.
    pub(super) fn structure(&mut self, a: &Value) -> Right {
        let has = |dim: usize| a.dims.contains(&dim);
        let with = |from: &[usize], to: &[usize]| -> Vec<usize> {
            a.dims
                .iter()
                .copied()
                .filter(|dim| !from.contains(dim))
                .chain(to.iter().copied())
                .collect()
        };
        let name = &a.name;
        let written = |dims: Vec<usize>, text: &str| {
            Right::new(dims, format!("{text}({name})"), a.bits).with(Left::Needed)
        };
        let ordered = |from: &[usize], to: &[usize], text: String| {
            Right::new(with(from, to), text, a.bits).with(Left::Ordered)
        };
        let splits = self.splits();
        match self.dice.roll(5) {
            0 if has(I) && !has(M) => written(with(&[I], &[M]), "rename"),
            0 if has(M) && !has(I) => written(with(&[M], &[I]), "rename"),
            _ if splits && has(N) && !has(I) && !has(J) => written(with(&[N], &[J, I]), "reshape"),
            _ if splits && has(I) && has(J) && !has(N) => written(with(&[I, J], &[N]), "reshape"),
            1 if has(U) && !has(V) => {
                let start = *self.dice.pick(&[0, 2, 4]);
                ordered(&[U], &[V], format!("slice_{{U->V}}({name}, {start})"))
            }
            2 if has(V) && !has(U) => ordered(&[V], &[U], format!("pad_{{V->U}}({name}, 2)")),
            _ if has(V) && !has(U) => {
                ordered(&[V], &[U], format!("concat_{{V,V->U}}({name}, {name})"))
            }
            3 if a.dims[0] != L => self.rows(a),
            4 => self.scattered(a),
            _ => self.function(a),
        }
    }

    /// Rows of the first dimension, looked up or updated.
    pub(super) fn rows(&mut self, a: &Value) -> Right {
        let (name, dim) = (&a.name, DIMS[a.dims[0]]);
        if a.bits < MOST_BITS && self.dice.one_in(2) {
            let text = format!("update_{dim}({name}, Q, 2.0 * take_{dim}({name}, Q))");
            return Right::new(a.dims.clone(), text, a.bits + 1.0);
        }
        let mut dims = vec![L];
        dims.extend(a.dims[1..].iter().copied().filter(|&dim| dim != L));
        Right::new(dims, format!("take_{dim}({name}, Q)"), a.bits).with(Left::Ordered)
    }

    /// Rows added into a value of other dimensions, if there is one that fits; else a function.
    pub(super) fn scattered(&mut self, a: &Value) -> Right {
        let like = self.any_value();
        let along = like.dims.first().copied().unwrap_or(L);
        let fits = along != L
            && !a.dims.contains(&along)
            && like.dims.iter().skip(1).all(|dim| *dim == L || a.dims.contains(dim));
        if !fits || a.bits >= MOST_BITS {
            return self.function(a);
        }
        let text = format!("put_{}({}, Q, {})", DIMS[along], a.name, like.name);
        Right::new(like.dims.clone(), text, a.bits + 39.0)
    }

    /// Tokens sent to experts: the first dimension to the second, with slots of a third that they
    /// do not have.
    pub(super) fn routed(&mut self, a: &Value) -> Right {
        let slots = [V, L, J].into_iter().find(|slots| !a.dims.contains(slots));
        let (Some(slots), &[tokens, experts, ..]) = (slots, &a.dims[..]) else {
            return self.function(a);
        };
        // The smallest sizes at which programs are run leave one expert of one only.
        let choices = if self.sizes[experts] > 1 { 1 + self.dice.roll(2) } else { 1 };
        let mut dims = a.dims.clone();
        dims.push(slots);
        let text = format!(
            "route_{{{},{}->{}}}({}, {choices})",
            DIMS[tokens], DIMS[experts], DIMS[slots], a.name
        );
        Right { left: Left::Ordered, ..Right::new(dims, text, 1.0) }
    }

    /// An operation on operations.
    pub(super) fn nested(&mut self, a: &Value) -> Right {
        let b = self.any_value();
        let (x, y) = (&a.name, &b.name);
        let both = union(a, &b);
        match self.dice.roll(8) {
            6 if !a.dims.is_empty() => self.placed(a),
            7 if !a.dims.contains(&L) && a.bits < MOST_BITS => {
                let dim = self.dice.roll(PLAIN);
                let mut dims = a.dims.clone();
                dims.extend([L, dim].into_iter().filter(|dim| !a.dims.contains(dim)));
                if dims.len() > 3 || dim == L {
                    return self.function(a);
                }
                Right::new(dims, format!("{x} * one_hot_{}(Q)", DIMS[dim]), a.bits)
                    .with(Left::Ordered)
            }
            0 => Right::new(a.dims.clone(), format!("exp(tanh({x}))"), 2.0),
            1 => Right::new(a.dims.clone(), format!("sqrt(abs({x}) + 1.0)"), a.bits + 1.0),
            2 => Right::new(both, format!("-({x} + {y}) / (abs({x}) + 1.0)"), b.bits + 2.0),
            3 => Right::new(
                both,
                format!("select({x} <= {y}, -{x}, 1.0 - {y})"),
                a.bits.max(b.bits) + 1.0,
            ),
            4 => {
                Right::new(both, format!("minimum(2.0 * {x}, {y} - 1.0)"), a.bits.max(b.bits) + 2.0)
            }
            _ => Right::new(both, format!("({x} == {y}) * {y}"), b.bits),
        }
    }

    /// An array that depends on the index of each element only, and a value where that says so.
    pub(super) fn placed(&mut self, a: &Value) -> Right {
        let along = DIMS[*self.dice.pick(&a.dims.clone())];
        let text = format!("select(iota_{along}() <= 2, {}, 0.5)", a.name);
        Right::new(a.dims.clone(), text, a.bits.max(1.0)).with(Left::Ordered)
    }

    /// Repeated along a dimension that is not there.
    pub(super) fn spread(&mut self, a: &Value) -> Right {
        let added = self.dice.roll(PLAIN);
        if a.dims.contains(&added) || a.dims.len() > 2 {
            return self.function(a);
        }
        let mut dims = a.dims.clone();
        dims.push(added);
        Right {
            left: Left::Ordered,
            ..Right::new(dims, format!("broadcast_{}({})", DIMS[added], a.name), a.bits)
        }
    }

    pub(super) fn normalised(&mut self, a: &Value) -> Right {
        if self.dice.one_in(3) {
            return self.along(a);
        }
        let count = 1 + self.dice.roll(a.dims.len().min(2));
        let along = &a.dims[a.dims.len() - count..];
        let function = *self.dice.pick(&["softmax", "logsumexp", "layernorm", "rmsnorm"]);
        let kept = a
            .dims
            .iter()
            .copied()
            .filter(|dim| function != "logsumexp" || !along.contains(dim))
            .collect();
        let names: Vec<&str> = along.iter().map(|&dim| DIMS[dim]).collect();
        Right::new(kept, format!("{function}_{{{}}}({})", names.join(","), a.name), a.bits + 4.0)
    }

    /// A function of all elements along a dimension. Indices are of values that are the same to the
    /// last bit in every plan.
    fn along(&mut self, a: &Value) -> Right {
        let along = *self.dice.pick(&a.dims.clone());
        let (x, dim) = (&a.name, DIMS[along]);
        let without = |gone: usize| a.dims.iter().copied().filter(move |&dim| dim != gone);
        match self.dice.roll(4) {
            0 if a.declared && a.dims.len() > 1 => {
                Right::new(without(along).collect(), format!("argmax_{dim}({x})"), 13.0)
            }
            1 if a.dims.contains(&U) && !a.dims.contains(&V) => {
                let dims = without(U).chain([V]).collect();
                Right::new(dims, format!("topk_{{U->V}}({x})"), a.bits).with(Left::Ordered)
            }
            2 => Right::new(a.dims.clone(), format!("revcumsum_{dim}({x})"), a.bits + 13.0),
            _ => Right::new(a.dims.clone(), format!("cumsum_{dim}({x})"), a.bits + 13.0),
        }
    }

    pub(super) fn masked(&mut self, a: &Value) -> Right {
        let (b, first) = (self.any_value(), DIMS[a.dims[0]]);
        let (x, y) = (&a.name, &b.name);
        let two = a.dims.get(1).map(|&dim| DIMS[dim]);
        let text = match (self.dice.roll(5), two) {
            (0, _) => {
                return Right::new(
                    union(a, &b),
                    format!("select(less({x}, {y}), {x}, 0.0)"),
                    a.bits,
                );
            }
            (1, _) => {
                return Right::new(
                    union(a, &b),
                    format!("select(greater_equal({y}, 1.0), {x}, {y})"),
                    a.bits.max(b.bits),
                );
            }
            (2, Some(second)) => format!("lower_{{{first},{second}}}({x})"),
            (3, Some(second)) => format!("softmax_{second}(causal_{{{first},{second}}}({x}))"),
            _ => format!("{x} + position_{first}({x})"),
        };
        Right::new(a.dims.clone(), text, a.bits + 13.0)
    }

    pub(super) fn product(&mut self, a: &Value) -> Right {
        let b = if self.dice.one_in(5) { a.clone() } else { self.any_value() };
        if a.bits + b.bits > MOST_BITS {
            return Right::new(a.dims.clone(), format!("tanh({})", a.name), 0.0);
        }
        let union = union(a, &b);
        let shared: Vec<usize> =
            a.dims.iter().copied().filter(|dim| b.dims.contains(dim)).collect();
        let mut summed: Vec<usize> = shared.into_iter().filter(|_| self.dice.roll(3) > 0).collect();
        if summed.len() == union.len() || union.len() - summed.len() > 3 {
            summed = union
                .iter()
                .skip(1)
                .copied()
                .filter(|dim| a.dims.contains(dim) && b.dims.contains(dim))
                .collect();
        }
        let kept: Vec<usize> = union.iter().copied().filter(|dim| !summed.contains(dim)).collect();
        let bits = a.bits + b.bits + 13.0 * summed.len() as f64;
        if summed.is_empty() {
            return Right::new(kept, format!("{} * {}", a.name, b.name), bits);
        }
        let over: Vec<&str> = summed.iter().map(|&dim| DIMS[dim]).collect();
        Right {
            left: Left::Ordered,
            ..Right::new(kept, format!("{} *{} {}", a.name, over.join(","), b.name), bits)
        }
    }
}
