/**
 * The grammar of shardwise programs and plans for tree-sitter.
 *
 * It follows grammar/src/shard.pest, rule by rule where it can. Where a statement ends is decided in
 * src/scanner.c, as grammar/src/scan.rs decides it. A word such as `d_ff_Y` stays one word: which
 * part of it is the dimension depends on what the file declares.
 */

/// <reference types="tree-sitter-cli/dsl" />

// The classes of characters of `letter` and `word_char`.
const ALPHABETIC = "\\p{Alphabetic}";
const LETTER = `[${ALPHABETIC}\\p{N}'.]`;
const DIMENSION = `[${ALPHABETIC}]${LETTER}*(_+${LETTER}+)*`;

// Keywords of statements that may be names too: `state = gelu(x)`.
const NAMES_TOO = [
  "input", "param", "frozen", "state", "backward", "phase", "pipeline", "stage", "repeat", "scan",
  "microbatches", "carry", "next", "checkpoint", "hold", "optimizer", "keep", "only",
  "offload",
];

const pattern = (text) => new RustRegex(text);
const separated = (item, separator) => seq(item, repeat(seq(separator, item)));

// A list whose last item may be followed by a comma, inside brackets.
const bracketed = (item) => seq(separated(item, ","), optional(","));

module.exports = grammar({
  name: "shardwise",

  word: ($) => $.identifier,

  extras: ($) => [/\s/, /\uFEFF/, /\\ /, $.comment],

  externals: ($) => [
    // Where a statement ends.
    $._newline,
    // A comma that ends a list of names, or another list.
    $._last_comma_of_names,
    $._last_comma,
    // The dimensions of `A *D,F B`.
    $._contracted,
    // The name of a call, without its subscript: `AllGather` of `AllGather_X(A)`.
    $._function,
    // A collective without parentheses: `AllGather` of `AllGather_X A`.
    $._collective,
    $._error_recovery,
  ],

  rules: {
    source_file: ($) =>
      seq(repeat($._item), optional($._statement)),

    _item: ($) => choice(seq($._statement, $._newline), $._block),

    _statement: ($) => choice($.allow, $._allowed, $.plan, $.phase),

    _allowed: ($) =>
      choice(
        $.hardware, $.mesh, $.dim, $.declaration, $.definition, $.arrow, $.assertion, $.backward,
        $.optimizer, $.carry, $.next, $.hold, $.checkpoint,
      ),

    _block: ($) => choice($.repeat, $.scan, $.microbatches_block, $.pipeline, $.stage),
    body: ($) => seq("{", repeat($._item), optional($._statement), "}"),

    comment: () => /#[^\n\r]*/,

    // Words
    identifier: () => pattern(`[${ALPHABETIC}_]([${ALPHABETIC}\\p{N}'._]*${LETTER})?`),
    // A word that ends in `_`, which a sharding follows in brackets.
    _open_word: () => pattern(`[${ALPHABETIC}_]([${ALPHABETIC}\\p{N}'.]|_)*_`),
    _name: ($) =>
      choice(
        $.identifier,
        alias($._open_word, $.identifier),
        alias(choice(...NAMES_TOO), $.identifier),
      ),
    axis: () => pattern(`${LETTER}[${ALPHABETIC}\\p{N}'._]*`),

    // Declarations
    plan: () => "plan",

    hardware: ($) =>
      seq(
        "hardware",
        choice($.string, seq($.hardware_name, optional(seq("from", $.string)))),
        repeat(seq(",", $.setting)),
      ),
    hardware_name: () => pattern(`[${ALPHABETIC}\\p{N}'._-]+`),
    string: () => /"[^"\n\r]+"/,

    mesh: ($) => seq("mesh", $._axes_declared),
    _axes_declared: ($) => seq(separated($.axis_declaration, ","), optional($._last_comma)),
    axis_declaration: ($) =>
      seq(
        field("name", $._name),
        "=",
        field("size", $._size),
        repeat(choice(seq(choice("over", "as"), $.factors), $.option)),
      ),
    factors: () => /[0-9]+([x×][0-9]+)*/,
    option: ($) => $.identifier,

    dim: ($) => seq("dim", separated($.dimension_declaration, ","), optional($._last_comma)),
    dimension_declaration: ($) =>
      seq(field("name", $.dimension), "=", field("size", $._size), repeat(choice("pad", seq("zigzag", $._size)))),
    dimension: ($) => choice($.identifier, alias(choice(...NAMES_TOO), $.identifier)),

    _size: ($) => choice($.size_number, $.dimension, $.binary_size, $.size_group),
    size_group: ($) => seq("(", $._size, ")"),
    binary_size: ($) =>
      choice(
        prec.left(1, seq($._size, choice("+", "-"), $._size)),
        prec.left(2, seq($._size, choice($._times, "/"), $._size)),
      ),
    size_number: () =>
      pattern("[0-9][0-9_]*(\\.[0-9]+)?([eE][0-9]+)?(Ki|Mi|Gi|Ti|k|K|M|G|T)?"),

    declaration: ($) =>
      seq(
        choice("input", "param", "state", "output", seq("frozen", "param")),
        $._values,
        optional($._last_comma_of_names),
      ),
    _values: ($) => seq($.value, optional($._more_values)),
    _more_values: ($) => repeat1(seq(",", $.value)),
    value: ($) =>
      seq(
        field("name", $._name),
        optional(seq(":", field("type", $.dtype))),
        optional($._layout),
      ),
    dtype: ($) => $.identifier,

    // Shardings
    _layout: ($) => prec.right(seq($.layout, repeat($.unreduced))),
    layout: ($) => seq("[", optional(bracketed($.sharded_dimension)), "]"),
    // With its axes, which may be part of the word: `B`, `B_X`, `B_{X,Y}`, `B_?`, `B_{X,?}`.
    sharded_dimension: ($) =>
      choice(
        $.identifier,
        alias(choice(...NAMES_TOO, "in", "from"), $.identifier),
        seq(alias($._open_word, $.identifier), choice($.unknown, $._immediate_axes)),
      ),
    unknown: () => token.immediate("?"),
    _immediate_axes: ($) => seq(token.immediate("{"), $._axes_in_braces),
    _axes_in_braces: ($) =>
      seq(
        separated($.axis, choice(",", "->", "→")),
        optional(choice("->", "→")),
        optional(seq(",", alias("?", $.unknown))),
        optional(","),
        $._close_brace,
      ),
    axes: ($) => seq("{", $._axes_in_braces),
    unreduced: ($) => seq($._open_brace, $.reduction, $._pending, $._close_brace),
    reduction: () => /(U|sum|max|min)[_.]?/,
    _pending: ($) => choice($.axes, separated($.axis, ",")),
    _open_brace: () => choice("{", "\\{"),
    _close_brace: () => choice("}", "\\}"),

    // Expressions
    definition: ($) =>
      seq(
        optional("output"),
        choice(
          seq($.value, "=", field("value", $._comparable)),
          // Only `split` has several results.
          seq($.value, $._more_values, "=", field("value", $.call)),
        ),
        optional($.kernel),
      ),
    kernel: ($) => seq("in", $.kernel_name),
    kernel_name: () => /k[0-9]+/,
    arrow: ($) => seq(field("value", $._comparable), choice("->", "→"), $.value),

    _comparable: ($) => choice($.comparison, $._expression),
    comparison: ($) =>
      seq($._expression, choice("<=", ">=", "==", "!=", "≤", "≥", "≠", "<", ">"), $._expression),
    _expression: ($) =>
      choice($.binary, $.product, $.negation, $.call, $.bare_call, $.number, $.tensor, $.group),
    binary: ($) =>
      choice(
        prec.left(1, seq($._expression, choice("+", "-"), $._expression)),
        prec.left(2, seq($._expression, "/", $._expression)),
      ),
    product: ($) =>
      prec.left(2, seq($._expression, $._times, optional($._contraction), $._expression)),
    _times: () => choice("*", "·", "⋅", "\\cdot"),
    _contraction: ($) =>
      choice(
        alias($._contracted, $.contraction),
        alias($._immediate_axes, $.contraction),
        seq(
          token.immediate(prec(1, "_")),
          choice(
            alias($._immediate_axes, $.contraction),
            alias($._immediate_dimensions, $.contraction),
            alias(token.immediate(prec(1, "\\text{LOCAL}")), $.contraction),
          ),
        ),
      ),
    _immediate_dimensions: () =>
      token.immediate(new RustRegex(`${DIMENSION}(,${DIMENSION})*`)),
    negation: ($) => prec(3, seq("-", $._expression)),
    group: ($) => seq("(", $._comparable, ")"),
    number: () => choice("inf", /[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?/),
    tensor: ($) => seq(field("name", $._name), optional($._layout)),

    call: ($) =>
      seq(
        field("function", alias($._function, $.function)),
        optional(seq(token.immediate("<"), $.dtype, ">")),
        optional($._subscript),
        "(",
        optional(
          seq(
            $._comparable,
            repeat(seq(",", choice($.call_option, $._comparable))),
            optional(","),
          ),
        ),
        ")",
      ),
    call_option: ($) => seq(field("name", $._name), "=", $.number),
    bare_call: ($) =>
      seq(
        field("function", alias($._collective, $.function)),
        optional($._subscript),
        optional(":"),
        $.tensor,
      ),
    _subscript: ($) =>
      seq(token.immediate("_"), choice($._immediate_axes, alias($._immediate_axis, $.axis))),
    _immediate_axis: () => token.immediate(pattern(`${LETTER}[${ALPHABETIC}\\p{N}'._]*`)),

    // The rest
    assertion: ($) =>
      seq(
        "assert",
        choice(
          seq("no", $._name, optional(seq("over", $._name))),
          seq($._name, "stays", "sharded"),
          seq($._name, choice("<=", "≤", "<"), $.amount),
        ),
      ),
    amount: () => pattern(`[0-9]+(\\.[0-9]+)?([eE][+-]?[0-9]+)?[ \\t]*[${ALPHABETIC}]*`),

    allow: ($) => seq("allow", separated($.code, ","), optional($._allowed)),
    code: () => /[A-Z]+[0-9]+/,

    backward: ($) =>
      seq(
        "backward",
        "from",
        $._name,
        optional(seq("given", $._name)),
        repeat(
          seq(
            ",",
            choice(
              seq($.microbatches, optional($._cut)),
              seq("gradients", "=", $.dtype),
              $._until,
              $._weights,
            ),
          ),
        ),
      ),
    _until: () => seq("until", "=", choice("step", "update")),
    _weights: () => seq("weights", "=", choice("regathered", "kept", "chosen")),
    phase: ($) => seq("phase", choice("forward", "backward"), repeat(seq(",", choice($._until, $._weights)))),
    microbatches: ($) => seq("microbatches", "=", $._size),
    _cut: ($) => seq("of", $.dimension),

    optimizer: ($) =>
      seq(
        "optimizer",
        $._name,
        optional(
          seq(
            "over",
            choice(
              seq(optional("_"), $.unknown_axes),
              $.axes,
              $.axis,
            ),
          ),
        ),
        repeat(seq(",", $.setting)),
      ),
    unknown_axes: () => "?",
    setting: ($) => seq(field("name", $.identifier), "=", $.setting_value),
    setting_value: () => pattern(`[${ALPHABETIC}\\p{N}'._+-]+`),

    // Blocks
    repeat: ($) =>
      seq("repeat", $.dimension, choice("reversed", seq("=", $._size)), $.body),
    scan: ($) =>
      seq("scan", $.dimension, optional(choice("reversed", seq("in", $.dimension))), $.body),
    microbatches_block: ($) =>
      seq("microbatches", $.dimension, "=", $.dimension, $._times, $._size, $.body),
    pipeline: ($) =>
      seq(
        "pipeline",
        $._name,
        choice(
          "reversed",
          repeat(seq(",", choice(seq($.microbatches, optional($._cut)), $.pipeline_option))),
        ),
        $.body,
      ),
    stage: ($) => seq("stage", $.dimension, optional("reversed"), $.body),
    pipeline_option: ($) =>
      seq(field("name", $.identifier), "=", choice($.layer_counts, $.option_word)),
    option_word: () => pattern(`${LETTER}[${ALPHABETIC}\\p{N}'._-]*`),
    layer_counts: ($) => seq("[", optional(separated($.axis, ",")), "]"),

    carry: ($) => seq("carry", choice($.definition, $._list_of_values)),
    next: ($) => seq("next", $.definition),
    hold: ($) => seq("hold", $._list_of_values),
    _list_of_values: ($) => seq($._values, optional($._last_comma_of_names)),
    checkpoint: ($) =>
      seq(
        "checkpoint",
        optional(
          seq(
            optional(choice("keep", "only", "offload")),
            separated($._name, ","),
            optional($._last_comma_of_names),
          ),
        ),
      ),
  },
});
