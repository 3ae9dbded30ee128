/* SPDX-License-Identifier: Apache-2.0
 *
 * Tokens of the text form. Private to ir/.
 */
#ifndef IGATA_IR_LEX_H
#define IGATA_IR_LEX_H

#include "ir/ir_int.h"

typedef enum TokenKind {
    TOK_END,
    TOK_NAME,   /* identifier or keyword */
    TOK_NUMBER, /* unsigned: 12, 0x1F, 1.5e-3, 0x1p-3 */
    TOK_STRING, /* "..." */
    TOK_VALUE,  /* %name */
    TOK_SYMBOL, /* @name, @"any name" */
    TOK_ARROW,  /* -> */
    TOK_PUNCT,  /* one character, in `punct` */
    TOK_BAD,    /* what no token starts with; a string that does not end; an escape that is none */
} TokenKind;
typedef struct Token {
    TokenKind kind;
    char punct;
    Str text; /* name, number or string content; "" for others */
    const char *start;
    uint32_t length; /* in the source */
    uint32_t line, column;
} Token;
typedef struct Lexer {
    Context *ctx;
    Arena *scratch;
    const char *at, *end, *line_start;
    uint32_t line;
} Lexer;

/* Reads the next token. Never reads at or past `end`; at the end gives TOK_END for ever. */
Token lex_next(Lexer *lexer);
/* How a message names the token: '...' shortened, or "end of text". */
const char *lex_describe(Lexer *lexer, const Token *token);

#endif
