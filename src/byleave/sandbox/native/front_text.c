/* Texts in rooms of fixed size, for the front. */
#define _GNU_SOURCE
#include "front.h"

void add_bytes(struct text *to, const char *bytes, size_t length)
{
	if (length >= to->room - to->length) {
		to->length = to->room;
		return;
	}
	memcpy(to->bytes + to->length, bytes, length);
	to->length += length;
}

void add(struct text *to, const char *words)
{
	add_bytes(to, words, strlen(words));
}

void add_number(struct text *to, unsigned long value, unsigned base)
{
	char digits[24];
	size_t at = sizeof digits;

	do
		digits[--at] = (char)('0' + value % base);
	while (value /= base);
	add_bytes(to, digits + at, sizeof digits - at);
}

const char *whole(struct text *of)
{
	if (of->length >= of->room)
		return NULL;
	of->bytes[of->length] = 0;
	return of->bytes;
}

int begins(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

int ends(const char *text, const char *with)
{
	size_t length = strlen(text), wanted = strlen(with);

	return length >= wanted && strcmp(text + length - wanted, with) == 0;
}

int number_in(const char *digits, size_t length, int most)
{
	int value = 0;

	if (length == 0 || length > 4)
		return -1;
	for (size_t each = 0; each < length; each++) {
		if (digits[each] < '0' || digits[each] > '9')
			return -1;
		value = value * 10 + (digits[each] - '0');
	}
	return value <= most ? value : -1;
}
