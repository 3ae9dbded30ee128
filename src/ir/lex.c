/* SPDX-License-Identifier: Apache-2.0
 *
 * The lexer of the text form.
 */
#include "ir/lex.h"

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static bool is_inner(char c) { return is_letter(c) || is_digit(c) || c == '.' || c == '$'; }

/* Blanks, ends of lines, comments (; or // to the end of the line). */
static void skip_blanks(Lexer *lexer)
{
    while (lexer->at < lexer->end) {
        char c = *lexer->at;
        if (c == ';' || (c == '/' && lexer->end - lexer->at > 1 && lexer->at[1] == '/')) {
            while (lexer->at < lexer->end && *lexer->at != '\n')
                lexer->at++;
            continue;
        }
        if (c != ' ' && c != '\t' && c != '\r' && c != '\n')
            return;
        lexer->at++;
        if (c == '\n') {
            lexer->line++;
            lexer->line_start = lexer->at;
        }
    }
}

static void skip_inner(Lexer *lexer)
{
    while (lexer->at < lexer->end && is_inner(*lexer->at))
        lexer->at++;
}

/* Digits, letters and points, and the sign of an exponent. */
static void skip_number(Lexer *lexer)
{
    const char *start = lexer->at;
    bool hex = lexer->end - start > 1 && start[0] == '0' && (start[1] == 'x' || start[1] == 'X');
    for (; lexer->at < lexer->end; lexer->at++) {
        char c = *lexer->at, before = lexer->at > start ? lexer->at[-1] : '0';
        bool exponent = hex ? before == 'p' || before == 'P' : before == 'e' || before == 'E';
        if (!is_digit(c) && !is_letter(c) && c != '.' && !((c == '+' || c == '-') && exponent))
            return;
    }
}

static int hex_digit(char c)
{
    if (is_digit(c))
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The escape after a backslash: \" \\ \n \t \xHH. -1: none of them; a NUL has no place in a text. */
static int read_escape(Lexer *lexer)
{
    if (lexer->at == lexer->end)
        return -1;
    char c = *lexer->at++;
    if (c == 'x' && lexer->end - lexer->at >= 2) {
        int high = hex_digit(lexer->at[0]), low = hex_digit(lexer->at[1]);
        lexer->at += 2;
        return high < 0 || low < 0 || high + low == 0 ? -1 : high * 16 + low;
    }
    return c == '"' || c == '\\' ? c : c == 'n' ? '\n' : c == 't' ? '\t' : -1;
}

/* At the opening quote. NULL: not a string. */
static Str read_string(Lexer *lexer)
{
    Text text;
    text_init(&text, lexer->scratch);
    lexer->at++;
    while (lexer->at < lexer->end) {
        const char *run = lexer->at;
        while (lexer->at < lexer->end && *lexer->at != '"' && *lexer->at != '\\' && *lexer->at != '\n' && *lexer->at)
            lexer->at++;
        text_add_n(&text, run, (size_t)(lexer->at - run));
        if (lexer->at == lexer->end || *lexer->at == '\n' || *lexer->at == '\0')
            return NULL;
        if (*lexer->at++ == '"')
            return str_intern_n(lexer->ctx, text.data, text.len);
        int c = read_escape(lexer);
        if (c < 0)
            return NULL;
        text_add_n(&text, &(char){(char)c}, 1);
    }
    return NULL;
}

/* After % or @: a name (digits may lead), or after @ a string. */
static Str read_sigil_name(Lexer *lexer, bool quoted_too)
{
    const char *start = lexer->at;
    if (quoted_too && start < lexer->end && *start == '"')
        return read_string(lexer);
    skip_inner(lexer);
    return lexer->at > start ? str_intern_n(lexer->ctx, start, (size_t)(lexer->at - start)) : NULL;
}

static TokenKind read_token(Lexer *lexer, Str *text, char *punct)
{
    const char *start = lexer->at;
    char c = *start;
    if (is_letter(c) || is_digit(c)) {
        if (is_letter(c))
            skip_inner(lexer);
        else
            skip_number(lexer);
        *text = str_intern_n(lexer->ctx, start, (size_t)(lexer->at - start));
        return is_letter(c) ? TOK_NAME : TOK_NUMBER;
    }
    if (c == '"') {
        *text = read_string(lexer);
        return *text ? TOK_STRING : TOK_BAD;
    }
    lexer->at++;
    if (c == '%' || c == '@') {
        *text = read_sigil_name(lexer, c == '@');
        return !*text ? TOK_BAD : c == '@' ? TOK_SYMBOL : TOK_VALUE;
    }
    if (c == '-' && lexer->at < lexer->end && *lexer->at == '>') {
        lexer->at++;
        return TOK_ARROW;
    }
    for (const char *s = "()[]{}<>,:=*+-#"; *s; s++)
        if (c == *s) {
            *punct = c;
            return TOK_PUNCT;
        }
    return TOK_BAD;
}

Token lex_next(Lexer *lexer)
{
    skip_blanks(lexer);
    Token token = {.start = lexer->at, .line = lexer->line, .column = (uint32_t)(lexer->at - lexer->line_start) + 1};
    if (lexer->at < lexer->end)
        token.kind = read_token(lexer, &token.text, &token.punct);
    if (!token.text)
        token.text = str_intern(lexer->ctx, "");
    token.length = (uint32_t)(lexer->at - token.start);
    return token;
}

const char *lex_describe(Lexer *lexer, const Token *token)
{
    enum { SHOWN = 40 };
    if (token->kind == TOK_END)
        return "end of text";
    Text text;
    text_init(&text, lexer->scratch);
    text_add(&text, "'");
    for (uint32_t i = 0; i < token->length && i < SHOWN; i++) {
        unsigned char c = (unsigned char)token->start[i];
        if (c < 0x20 || c >= 0x7f)
            text_addf(&text, "\\x%02X", c);
        else
            text_add_n(&text, &token->start[i], 1);
    }
    text_add(&text, token->length > SHOWN ? "...'" : "'");
    return text.data;
}
