/* SPDX-License-Identifier: Apache-2.0
 * Input and expected data: -i options, ONNX test-case folders, tolerance files. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- -i ---------------------------------------------------------------------------------------------------------------------- */

/* Names may contain '=': the one before '@' counts, else the last. */
bool cli_split(Cli *cli, const char *option, const char *text, const char **name, const char **rest)
{
    const char *at = strstr(text, "=@"), *equals = at ? at : strrchr(text, '=');
    if (!equals || equals == text || !equals[1]) {
        cli_usage_error(cli, "option %s: '%s' is not NAME=VALUE", option, text);
        return false;
    }
    *name = cli_format(cli, "%.*s", (int)(equals - text), text);
    *rest = equals + 1;
    return true;
}

igata_status cli_name_inputs(Cli *cli, igata_options *options)
{
    for (size_t i = 0; i < cli->n_own; i++) {
        const char *name, *rest;
        if (strcmp(cli->own[i].key, "input") != 0)
            continue;
        if (!cli_split(cli, "-i", cli->own[i].value, &name, &rest))
            return IGATA_E_OPTION;
        igata_status status = igata_option_set(options, "input", name);
        if (status != IGATA_OK)
            return status;
    }
    return IGATA_OK;
}

static bool is_given(const CliInputs *inputs, const char *name)
{
    for (size_t i = 0; i < inputs->n; i++)
        if (strcmp(inputs->tensor[i].name, name) == 0)
            return true;
    return false;
}

static bool refuse_twice(Cli *cli, const CliInputs *inputs, const char *name)
{
    if (is_given(inputs, name))
        cli_usage_error(cli, "input '%s' is given twice", name);
    return is_given(inputs, name);
}

static igata_status read_given(Cli *cli, const char *text, CliInputs *inputs)
{
    const char *name, *rest;
    igata_tensor *t = &inputs->tensor[inputs->n];
    if (!cli_split(cli, "-i", text, &name, &rest))
        return IGATA_E_OPTION;
    if (refuse_twice(cli, inputs, name))
        return IGATA_E_OPTION;
    if (*rest != '@')
        return IGATA_OK; /* made up later, when sizes are known */
    igata_status status = igata_tensor_read(cli->ctx, rest + 1, t);
    t->name = name;
    inputs->n += status == IGATA_OK;
    return status;
}

static igata_status make_up(Cli *cli, igata_session *session, bool invent, const char *name, const char *how, CliInputs *inputs)
{
    igata_tensor *t = &inputs->tensor[inputs->n];
    if (refuse_twice(cli, inputs, name))
        return IGATA_E_OPTION;
    igata_status status = igata_session_input_type(session, name, inputs->tensor, inputs->n, t);
    if (status == IGATA_E_ARGUMENT) { /* no such input: the session says so when it is run */
        *t = (igata_tensor){.name = name, .dtype = IGATA_F32};
        inputs->n++;
        return IGATA_OK;
    }
    int64_t *dims = cli_alloc(cli, (t->rank + 1) * sizeof *dims);
    for (size_t a = 0; status == IGATA_OK && t->rank != IGATA_ANY_RANK && a < t->rank; a++) {
        dims[a] = t->dims[a];
        if (dims[a] < 0 && invent) {
            fprintf(stderr, "note: axis %zu of input '%s' has no size: 1 is used (--shape, or --dim with a model)\n", a, name);
            dims[a] = 1;
        }
    }
    t->dims = dims;
    t->name = name;
    if (status == IGATA_OK)
        status = igata_tensor_fill(cli->ctx, t, how);
    inputs->n += status == IGATA_OK;
    return status;
}

igata_status cli_read_inputs(Cli *cli, igata_session *session, bool invent, CliInputs *inputs)
{
    size_t declared = igata_session_inputs(session);
    igata_status status = IGATA_OK;
    *inputs = (CliInputs){cli_alloc(cli, (cli->n_own + declared + 1) * sizeof *inputs->tensor), 0};
    for (size_t i = 0; status == IGATA_OK && i < cli->n_own; i++)
        if (strcmp(cli->own[i].key, "input") == 0)
            status = read_given(cli, cli->own[i].value, inputs);
    for (size_t i = 0; status == IGATA_OK && i < cli->n_own; i++) {
        const char *name, *rest;
        if (strcmp(cli->own[i].key, "input") == 0 && cli_split(cli, "-i", cli->own[i].value, &name, &rest) && *rest != '@')
            status = make_up(cli, session, invent, name, rest, inputs);
    }
    for (size_t i = 0; status == IGATA_OK && invent && i < declared; i++) {
        igata_tensor t;
        igata_session_input(session, i, &t);
        if (is_given(inputs, t.name))
            continue;
        if (!cli->quiet)
            fprintf(stderr, "note: input '%s' is random:0\n", t.name);
        status = make_up(cli, session, invent, t.name, "random:0", inputs);
    }
    return status;
}

/* ---- test-case folders ----------------------------------------------------------------------------------------------------------- */

static igata_status read_files(Cli *cli, igata_context *ctx, const char *folder, const char *stem, CliInputs *to)
{
    size_t n = 0;
    while (access(cli_format(cli, "%s/%s_%zu.pb", folder, stem, n), R_OK) == 0)
        n++;
    to->tensor = cli_alloc(cli, (n + 1) * sizeof *to->tensor);
    for (to->n = 0; to->n < n; to->n++) {
        igata_status status = igata_tensor_read(ctx, cli_format(cli, "%s/%s_%zu.pb", folder, stem, to->n), &to->tensor[to->n]);
        if (status != IGATA_OK)
            return status;
    }
    return IGATA_OK;
}

bool cli_read_set(Cli *cli, igata_context *ctx, const char *folder, unsigned set, CliInputs *inputs, CliInputs *outputs,
                  igata_status *status)
{
    const char *dir = cli_format(cli, "%s/test_data_set_%u", folder, set);
    if (access(dir, R_OK) != 0)
        return false;
    *status = read_files(cli, ctx, dir, "input", inputs);
    if (*status == IGATA_OK)
        *status = read_files(cli, ctx, dir, "output", outputs);
    return true;
}

/* A flat JSON object of numbers: {"rtol": 1e-3, "atol": 1e-7, "ulp": 4}. Members of other kinds are not expected. */
static bool parse_tolerance(const char *text, igata_tolerance *t)
{
    const char *p = text + strspn(text, " \t\r\n");
    if (*p++ != '{')
        return false;
    for (;;) {
        p += strspn(p, " \t\r\n,");
        if (*p == '}')
            return true;
        if (*p++ != '"')
            return false;
        size_t n = strcspn(p, "\"");
        const char *key = p;
        p += n + (p[n] == '"');
        p += strspn(p, " \t\r\n");
        if (*p++ != ':')
            return false;
        char *end;
        double value = strtod(p, &end);
        if (end == p)
            return false;
        p = end;
        if (n == 4 && memcmp(key, "rtol", n) == 0)
            t->rtol = value;
        else if (n == 4 && memcmp(key, "atol", n) == 0)
            t->atol = value;
        else if (n == 3 && memcmp(key, "ulp", n) == 0)
            t->ulp = value;
    }
}

bool cli_read_tolerance(Cli *cli, const char *folder, igata_tolerance *tolerance)
{
    char text[4096];
    FILE *file = fopen(cli_format(cli, "%s/tolerance.json", folder), "rb");
    *tolerance = (igata_tolerance){.size = sizeof *tolerance, .rtol = 1e-3, .atol = 1e-7};
    if (!file)
        return true;
    size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[n] = 0;
    *tolerance = (igata_tolerance){.size = sizeof *tolerance};
    return parse_tolerance(text, tolerance);
}
