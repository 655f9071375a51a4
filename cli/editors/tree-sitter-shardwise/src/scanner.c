// Where statements end, and which words are functions, as grammar/src/scan.rs and the rules
// `suffix`, `call` and `bare_call` of grammar/src/shard.pest decide it.

#include "tree_sitter/parser.h"

#include <string.h>

enum TokenType {
    NEWLINE,
    LAST_COMMA_OF_NAMES,
    LAST_COMMA,
    CONTRACTED,
    FUNCTION,
    COLLECTIVE,
    ERROR_RECOVERY,
};

// What the line after a possible end of a statement begins with, and has.
typedef struct {
    bool is_end_of_file;
    bool has_keyword;
    bool has_operator;
    bool has_operand;
    bool closes_block;
    // Whether it has a `=` that is not part of a comparison.
    bool defines;
    bool has_arrow;
} Line;

static const char *const KEYWORDS[] = {
    "plan",  "hardware", "mesh",     "dim",      "input",     "param",      "frozen", "state",
    "output", "assert",  "allow",    "repeat",   "scan",      "carry",      "next",   "backward",
    "phase", "pipeline", "stage", "optimizer", "checkpoint", "hold",   "microbatches",
};

static const char *const COLLECTIVES[] = {
    "AllGather", "AllReduce", "ReduceScatter", "AllToAll", "Permute", "Slice", "Unreduce",
};

enum { LONGEST_WORD = 16 };

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static bool is_one_of(const char *word, const char *const *words, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (strcmp(word, words[i]) == 0) return true;
    }
    return false;
}

static bool is_line_break(int32_t c) { return c == '\n' || c == '\r'; }

static bool is_blank(int32_t c) {
    return c == ' ' || c == '\t' || c == 0x0B || c == 0x0C || c == 0x85 || c == 0xA0 ||
           c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
           c == 0x202F || c == 0x205F || c == 0x3000 || c == 0xFEFF;
}

// Operators that are not ASCII: · × → ≠ ≤ ≥ ⋅
static bool is_wide_operator(int32_t c) {
    return c == 0xB7 || c == 0xD7 || c == 0x2192 || c == 0x2260 || c == 0x2264 || c == 0x2265 ||
           c == 0x22C5;
}

static bool is_digit(int32_t c) { return c >= '0' && c <= '9'; }

// What else is not ASCII counts as a letter: the parser refuses it where it is none.
static bool is_alphabetic(int32_t c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= 0x80 && !is_blank(c) && !is_wide_operator(c));
}

static bool is_letter(int32_t c) {
    return is_alphabetic(c) || is_digit(c) || c == '\'' || c == '.';
}

static bool is_word(int32_t c) { return is_letter(c) || c == '_'; }

static void advance(TSLexer *lexer) { lexer->advance(lexer, false); }

static void skip_blanks(TSLexer *lexer) {
    while (is_blank(lexer->lookahead)) advance(lexer);
}

static void skip_comment(TSLexer *lexer) {
    while (!lexer->eof(lexer) && !is_line_break(lexer->lookahead)) advance(lexer);
}

// Goes over blank lines and comments to the next code.
static void go_to_code(TSLexer *lexer) {
    for (;;) {
        if (is_blank(lexer->lookahead) || is_line_break(lexer->lookahead)) {
            advance(lexer);
        } else if (lexer->lookahead == '#') {
            skip_comment(lexer);
        } else {
            return;
        }
    }
}

// Reads a word, as far as it is of characters of a kind; the start of it is kept in `word`.
static size_t read_word(TSLexer *lexer, bool (*is_part)(int32_t), char word[LONGEST_WORD]) {
    size_t length = 0;
    for (; is_part(lexer->lookahead); length++) {
        if (length < LONGEST_WORD - 1) {
            word[length] = lexer->lookahead < 0x80 ? (char)lexer->lookahead : '?';
            word[length + 1] = 0;
        }
        advance(lexer);
    }
    if (length == 0 || length >= LONGEST_WORD) word[0] = 0;
    return length;
}

// Whether a line that begins with `first` and goes on with `second` begins with an operator.
static bool begins_with_operator(int32_t first, int32_t second) {
    switch (first) {
    case '+': case '*': case '<': case '>': case '=': case '!': case 0xB7: case 0x22C5:
    case 0x2192: case 0x2264: case 0x2265: case 0x2260:
        return true;
    case '/':
        return second != '/' && second != '*';
    case '-':
        return second == '>' || is_blank(second);
    default:
        return false;
    }
}

// Reads the next line with code.
static Line read_line(TSLexer *lexer) {
    Line line = {0};
    go_to_code(lexer);
    line.is_end_of_file = lexer->eof(lexer);
    int32_t first = lexer->lookahead;
    int32_t before = 0;
    line.closes_block = first == '}';
    line.has_operand = is_alphabetic(first) || is_digit(first) || first == '(';
    char word[LONGEST_WORD];
    if (read_word(lexer, is_word, word) == 0 && !lexer->eof(lexer)) {
        before = first;
        advance(lexer);
        line.has_operator = begins_with_operator(first, lexer->lookahead);
        line.defines = first == '=' && lexer->lookahead != '=';
        line.has_arrow = first == '-' && lexer->lookahead == '>';
    } else if (is_one_of(word, KEYWORDS, COUNT(KEYWORDS))) {
        bool is_separated = is_blank(lexer->lookahead);
        skip_blanks(lexer);
        bool is_alone = lexer->eof(lexer) || is_line_break(lexer->lookahead) ||
                        lexer->lookahead == '#';
        line.has_keyword = is_alone || (is_separated && is_word(lexer->lookahead));
    }
    while (!lexer->eof(lexer) && !is_line_break(lexer->lookahead) && lexer->lookahead != '#') {
        int32_t c = lexer->lookahead;
        advance(lexer);
        bool compares = lexer->lookahead == '=' || before == '<' || before == '>' ||
                        before == '!' || before == '=';
        line.defines = line.defines || (c == '=' && !compares);
        line.has_arrow = line.has_arrow || (c == '-' && lexer->lookahead == '>');
        before = c;
    }
    return line;
}

// At a line break or the end of the file: whether the statement ends here.
static bool scan_newline(TSLexer *lexer, bool is_recovering) {
    if (lexer->eof(lexer)) {
        lexer->mark_end(lexer);
        return !is_recovering;
    }
    advance(lexer);
    lexer->mark_end(lexer);
    return !read_line(lexer).has_operator;
}

// At a comma: whether the list ends with it.
static bool scan_last_comma(TSLexer *lexer, const bool *valid) {
    advance(lexer);
    lexer->mark_end(lexer);
    skip_blanks(lexer);
    if (lexer->lookahead == '#') skip_comment(lexer);
    if (!lexer->eof(lexer) && !is_line_break(lexer->lookahead)) return false;
    Line line = read_line(lexer);
    bool is_cut = line.is_end_of_file || line.has_keyword || line.closes_block;
    if (valid[LAST_COMMA_OF_NAMES]) {
        lexer->result_symbol = LAST_COMMA_OF_NAMES;
        return is_cut || (line.defines && !line.has_operator);
    }
    lexer->result_symbol = LAST_COMMA;
    return is_cut;
}

// After the dimensions of a possible contraction: whether an operand follows.
static bool is_before_operand(TSLexer *lexer) {
    skip_blanks(lexer);
    if (lexer->lookahead == '#') skip_comment(lexer);
    if (is_line_break(lexer->lookahead)) {
        Line line = read_line(lexer);
        return line.has_operand && !line.defines && !line.has_arrow && !line.has_keyword;
    }
    int32_t c = lexer->lookahead;
    return is_alphabetic(c) || is_digit(c) || c == '(' || c == '_';
}

// After the name of a possible function and the rest of its word: whether it is called.
static bool is_called(TSLexer *lexer) {
    if (lexer->lookahead == '<') {
        do advance(lexer);
        while (is_word(lexer->lookahead) || is_blank(lexer->lookahead));
        if (lexer->lookahead != '>') return false;
        advance(lexer);
        if (lexer->lookahead == '_') {
            while (is_word(lexer->lookahead)) advance(lexer);
        }
    }
    return true;
}

// After `_`: the braces of a subscript, if there are any.
static void skip_braces(TSLexer *lexer) {
    if (lexer->lookahead != '{') return;
    while (!lexer->eof(lexer) && lexer->lookahead != '}' && lexer->lookahead != '(') {
        advance(lexer);
    }
    if (lexer->lookahead == '}') advance(lexer);
}

// At a word: the dimensions of a contraction, the function of a call, or a collective.
static bool scan_word(TSLexer *lexer, const bool *valid, bool is_after_operator) {
    char name[LONGEST_WORD];
    read_word(lexer, is_letter, name);
    lexer->mark_end(lexer);
    int32_t last = 0;
    bool has_list = false;
    while (is_word(lexer->lookahead) ||
           (lexer->lookahead == ',' && is_after_operator && last != '_' && last != ',')) {
        has_list = has_list || lexer->lookahead == ',';
        last = lexer->lookahead;
        advance(lexer);
    }
    int32_t next = lexer->lookahead;
    bool is_separated = is_blank(next) || is_line_break(next) || next == '#';
    if (is_after_operator && is_separated && last != '_' && last != ',') {
        lexer->mark_end(lexer);
        lexer->result_symbol = CONTRACTED;
        return is_before_operand(lexer);
    }
    if (has_list || !is_called(lexer)) return false;
    skip_braces(lexer);
    skip_blanks(lexer);
    if (valid[FUNCTION] && lexer->lookahead == '(') {
        lexer->result_symbol = FUNCTION;
        return true;
    }
    if (!valid[COLLECTIVE] || !is_one_of(name, COLLECTIVES, COUNT(COLLECTIVES))) return false;
    if (lexer->lookahead == ':') advance(lexer);
    skip_blanks(lexer);
    lexer->result_symbol = COLLECTIVE;
    return is_alphabetic(lexer->lookahead) || lexer->lookahead == '_';
}

// Goes over white space to what the next token begins with.
static bool skip_space(TSLexer *lexer, const bool *valid) {
    bool has_skipped = false;
    for (;; has_skipped = true) {
        int32_t c = lexer->lookahead;
        if (c == '\\') {
            lexer->advance(lexer, true);
            if (lexer->lookahead != ' ') return has_skipped;
        }
        if (!is_blank(lexer->lookahead) &&
            (!is_line_break(lexer->lookahead) || valid[NEWLINE])) {
            return has_skipped;
        }
        lexer->advance(lexer, true);
    }
}

bool tree_sitter_shardwise_external_scanner_scan(void *payload, TSLexer *lexer,
                                                 const bool *valid) {
    (void)payload;
    bool is_recovering = valid[ERROR_RECOVERY];
    bool has_skipped = skip_space(lexer, valid);
    if (valid[NEWLINE] && (is_line_break(lexer->lookahead) || lexer->eof(lexer))) {
        lexer->result_symbol = NEWLINE;
        return scan_newline(lexer, is_recovering);
    }
    if (is_recovering) return false;
    if (lexer->lookahead == ',' && (valid[LAST_COMMA] || valid[LAST_COMMA_OF_NAMES])) {
        return scan_last_comma(lexer, valid);
    }
    if ((valid[FUNCTION] || valid[CONTRACTED]) && is_alphabetic(lexer->lookahead)) {
        return scan_word(lexer, valid, valid[CONTRACTED] && !has_skipped);
    }
    return false;
}

// The scanner has no state.
void *tree_sitter_shardwise_external_scanner_create(void) { return NULL; }

void tree_sitter_shardwise_external_scanner_destroy(void *payload) { (void)payload; }

unsigned tree_sitter_shardwise_external_scanner_serialize(void *payload, char *buffer) {
    (void)payload;
    (void)buffer;
    return 0;
}

void tree_sitter_shardwise_external_scanner_deserialize(void *payload, const char *buffer,
                                                        unsigned length) {
    (void)payload;
    (void)buffer;
    (void)length;
}
