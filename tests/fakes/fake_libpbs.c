/* The calls of libpbs that the plugin makes, answered by the fake pbs_ifl (fake_pbs.py). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct attrl {
	struct attrl *next;
	char *name, *resource, *value;
	int op;
};

struct batch_status {
	struct batch_status *next;
	char *name;
	struct attrl *attribs;
	char *text;
};

static int error;

int *__pbs_errno_location(void)
{
	return &error;
}

static FILE *ask(const char *what)
{
	char command[4096];

	snprintf(command, sizeof(command), "pbs_ifl %s", what);
	return popen(command, "r");
}

int pbs_connect(const char *server)
{
	printf("this library prints\n");
	return server == NULL && pclose(ask("connect")) == 0 ? 1 : -1;
}

int pbs_disconnect(int connection)
{
	return connection != 1;
}

static char words[4096];

int pbs_alterjob(int connection, const char *job, struct attrl *change, const char *extend)
{
	char question[4096];
	FILE *answer;
	int status;

	if (connection != 1 || strcmp(change->name, "Resource_List") || change->next || extend)
		return 15003;
	snprintf(question, sizeof(question), "alter '%s' '%s' '%s'", job, change->resource, change->value);
	answer = ask(question);
	words[fread(words, 1, sizeof(words) - 1, answer)] = 0;
	words[strcspn(words, "\n")] = 0;
	status = pclose(answer);
	return status ? (error = 15007) : 0;
}

int pbs_asyalterjob(int connection, const char *job, struct attrl *change, const char *extend)
{
	char path[4096];
	FILE *file;

	if (connection != 1 || strcmp(change->name, "Resource_List") || change->next || extend)
		return 15003;
	snprintf(path, sizeof(path), "%s.asynchronous", getenv("FAKE_PBS_STATE"));
	file = fopen(path, "a");
	fprintf(file, "%s\t%s\t%s\n", job, change->resource, change->value);
	return fclose(file);
}

static struct attrl *attribute(const char *name, const char *resource, const char *value)
{
	struct attrl *each = calloc(1, sizeof(*each));

	each->name = strdup(name);
	each->resource = resource ? strdup(resource) : NULL;
	each->value = strdup(value);
	return each;
}

static int is_wanted(struct attrl *wanted, const char *name)
{
	for (; wanted; wanted = wanted->next)
		if (!strcmp(wanted->name, name))
			return 1;
	return 0;
}

static int is_named(const char *jobs, const char *name)
{
	const char *place = strstr(jobs, name);
	size_t length = strlen(name);

	return place && (place == jobs || place[-1] == ',') && (!place[length] || place[length] == ',');
}

static char *cut(char *field)
{
	char *tab = strchr(field, '\t');

	*tab = 0;
	return tab + 1;
}

struct batch_status *pbs_statjob(int connection, const char *job, struct attrl *wanted, const char *extend)
{
	struct batch_status *first = NULL, *each = NULL;
	char line[4096], *name, *resource, *value;
	struct attrl *found;
	FILE *answer = ask("stat");

	if (connection != 1 || extend)
		return NULL;
#ifdef BEFORE_22
	if (is_wanted(wanted, "obittime") || is_wanted(wanted, "max_run_subjobs")) {
		pclose(answer);
		error = 15002; /* PBSE_NOATTR, for the whole question */
		return NULL;
	}
	error = 0;
#endif
	while (fgets(line, sizeof(line), answer)) {
		line[strcspn(line, "\n")] = 0;
		name = cut(line);
		resource = cut(name);
		value = cut(resource);
		if (!is_wanted(wanted, name) || (job && !is_named(job, line)))
			continue;
		if (!first || strcmp(each->name, line)) {
			each = calloc(1, sizeof(*each));
			each->name = strdup(line);
			each->next = first;
			first = each;
		}
		found = attribute(name, *resource ? resource : NULL, value);
		found->next = each->attribs;
		each->attribs = found;
	}
	if (pclose(answer))
		error = 15010;
	return first;
}

struct batch_status *pbs_statserver(int connection, struct attrl *wanted, const char *extend)
{
	struct batch_status *server = calloc(1, sizeof(*server));

	if (connection != 1 || !wanted || extend || pclose(ask("connect"))) {
		error = 15010;
		return NULL;
	}
	server->name = strdup("head");
	return server;
}

void pbs_statfree(struct batch_status *status)
{
	(void) status;
}

char *pbs_geterrmsg(int connection)
{
	(void) connection;
	return *words ? words : NULL;
}
