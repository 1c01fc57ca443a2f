/*
 * How two processes identify each other: each proves on every connection anew that it knows the
 * secret, so that neither an echo nor a replay is believed.
 */
#include "launch/greet.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

/* One connection: the sockets and greetings of its sides. */
struct connection {
	int fd[2];
	struct bb_greet greet[2];
};

static struct bb_identity identity_of(int proc, const struct bb_secret *secret)
{
	struct bb_identity identity = {.secret = secret};

	identity.hello = (struct bb_hello){.proc = proc, .nprocs = 2, .pid = 7, .nonce = 1};
	strcpy(identity.hello.version, "1.0");
	strcpy(identity.hello.host, proc == 0 ? "zero" : "one");
	memset(identity.password[BB_SIDE_CLIENT], 'c', 16);
	memset(identity.password[BB_SIDE_SERVER], 's', 16);
	return identity;
}

static struct connection connect_sides(void)
{
	struct connection c = {.greet = {{.got = 0}}};

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, c.fd), 0);
	return c;
}

static void disconnect(struct connection *c)
{
	close(c->fd[0]);
	close(c->fd[1]);
}

static struct bb_secret *open_secret(const char *key)
{
	struct bb_error error = {.text = ""};
	struct bb_secret *secret;

	setenv(BB_SECRET_VARIABLE, key, 1);
	assert_int_equal(bb_secret_open(&secret, &error), BB_OK);
	return secret;
}

/* Both sides send their hellos, and ME receives the other's. */
static int exchange(struct connection *c, const struct bb_identity identity[2], enum bb_side me)
{
	for (int side = 0; side < 2; side++)
		assert_true(bb_greet_send(&c->greet[side], &identity[side], c->fd[side], side));
	return bb_greet_receive(&c->greet[me], &identity[me], c->fd[me], me);
}

/* Without a secret, the hello is all; it carries the other's process and the password of its side.
 */
static void test_plain(void **state)
{
	const struct bb_identity identity[2] = {identity_of(1, NULL), identity_of(0, NULL)};

	for (int me = 0; me < 2; me++) {
		struct connection c = connect_sides();

		assert_int_equal(exchange(&c, identity, me), 1);
		assert_int_equal(c.greet[me].stage, BB_GREET_DONE);
		assert_int_equal(c.greet[me].theirs.hello.proc, me);
		assert_string_equal(c.greet[me].theirs.hello.host, me == 0 ? "zero" : "one");
		disconnect(&c);
	}
}

/* A password of one byte more or less, or that of the other side, is none. */
static void test_password(void **state)
{
	for (int at = -1; at < 16; at++) {
		struct bb_identity identity[2] = {identity_of(1, NULL), identity_of(0, NULL)};
		struct connection c = connect_sides();

		if (at < 0)
			memset(identity[BB_SIDE_CLIENT].password[BB_SIDE_CLIENT], 's', 16);
		else
			identity[BB_SIDE_CLIENT].password[BB_SIDE_CLIENT][at] ^= 1;
		assert_int_equal(exchange(&c, identity, BB_SIDE_SERVER), -1);
		assert_int_equal(c.greet[BB_SIDE_SERVER].error, EPROTO);
		disconnect(&c);
	}
}

/* What one side alone has is named: a secret there, or here. */
static void test_one_has_none(void **state)
{
	struct bb_secret *secret = open_secret("0123456789abcdef");

	for (int with = 0; with < 2; with++) {
		struct bb_identity identity[2] = {identity_of(1, NULL), identity_of(0, NULL)};

		identity[with].secret = secret;
		for (int me = 0; me < 2; me++) {
			struct connection c = connect_sides();

			assert_int_equal(exchange(&c, identity, me), -1);
			assert_int_equal(c.greet[me].error, me == with ? EKEYREJECTED : ENOKEY);
			disconnect(&c);
		}
	}
	bb_secret_close(secret);
}

static int receive(struct connection *c, const struct bb_identity identity[2], enum bb_side me)
{
	return bb_greet_receive(&c->greet[me], &identity[me], c->fd[me], me);
}

/* With the secret both are done, but not if one received another challenge than the other sent. */
static void test_proofs(void **state)
{
	struct bb_secret *secret = open_secret("0123456789abcdef");

	for (int differ = 0; differ < 2; differ++) {
		const struct bb_identity identity[2] = {identity_of(1, secret),
							identity_of(0, secret)};
		struct connection c = connect_sides();

		assert_int_equal(exchange(&c, identity, BB_SIDE_CLIENT), 1);
		assert_int_equal(receive(&c, identity, BB_SIDE_SERVER), 1);
		for (int side = 0; side < 2; side++) {
			assert_int_equal(c.greet[side].stage, BB_GREET_PROOF);
			assert_int_equal(receive(&c, identity, side), 0);
		}
		for (int side = 0; side < 2; side++)
			assert_true(
				bb_greet_prove(&c.greet[side], &identity[side], c.fd[side], side));
		if (differ)
			c.greet[BB_SIDE_SERVER].theirs.challenge[31] ^= 1;
		assert_int_equal(receive(&c, identity, BB_SIDE_CLIENT), 1);
		assert_int_equal(c.greet[BB_SIDE_CLIENT].stage, BB_GREET_DONE);
		assert_int_equal(receive(&c, identity, BB_SIDE_SERVER), differ ? -1 : 1);
		if (differ)
			assert_int_equal(c.greet[BB_SIDE_SERVER].error, EKEYREJECTED);
		disconnect(&c);
	}
	bb_secret_close(secret);
}

/* A false process 0 without the secret returns the proof that it received, or a false process 1. */
static void test_echo(void **state)
{
	struct bb_secret *secret = open_secret("0123456789abcdef");
	const struct bb_identity identity[2] = {identity_of(1, secret), identity_of(0, secret)};

	for (int me = 0; me < 2; me++) {
		struct connection c = connect_sides();
		unsigned char proof[BB_SECRET_PROOF];

		assert_int_equal(exchange(&c, identity, me), 1);
		assert_true(bb_greet_prove(&c.greet[me], &identity[me], c.fd[me], me));
		assert_int_equal(
			recv(c.fd[!me], &c.greet[!me].theirs, sizeof(struct bb_greeting), 0),
			sizeof(struct bb_greeting));
		assert_int_equal(recv(c.fd[!me], proof, sizeof(proof), 0), sizeof(proof));
		assert_int_equal(send(c.fd[!me], proof, sizeof(proof), 0), sizeof(proof));
		assert_int_equal(receive(&c, identity, me), -1);
		assert_int_equal(c.greet[me].error, EKEYREJECTED);
		disconnect(&c);
	}
	bb_secret_close(secret);
}

/* Challenges are random, so that what one connection carried is rejected on the next. */
static void test_replay(void **state)
{
	struct bb_secret *secret = open_secret("0123456789abcdef");
	const struct bb_identity identity[2] = {identity_of(1, secret), identity_of(0, secret)};

	for (int me = 0; me < 2; me++) {
		struct connection first = connect_sides(), again = connect_sides();
		struct {
			struct bb_greeting greeting;
			unsigned char proof[BB_SECRET_PROOF];
		} said;

		assert_int_equal(exchange(&first, identity, !me), 1);
		assert_int_equal(receive(&first, identity, me), 1);
		assert_true(bb_greet_prove(&first.greet[!me], &identity[!me], first.fd[!me], !me));
		said.greeting = first.greet[!me].mine;
		assert_int_equal(recv(first.fd[me], said.proof, sizeof(said.proof), MSG_PEEK),
				 sizeof(said.proof));
		assert_int_equal(receive(&first, identity, me), 1);

		assert_true(bb_greet_send(&again.greet[me], &identity[me], again.fd[me], me));
		assert_memory_not_equal(again.greet[me].mine.challenge,
					first.greet[me].mine.challenge, 8);
		assert_int_equal(send(again.fd[!me], &said, sizeof(said), 0), sizeof(said));
		assert_int_equal(receive(&again, identity, me), 1);
		assert_int_equal(receive(&again, identity, me), -1);
		assert_int_equal(again.greet[me].error, EKEYREJECTED);
		disconnect(&first);
		disconnect(&again);
	}
	bb_secret_close(secret);
}

/* What arrives in pieces counts once it is whole; a connection that closes has failed. */
static void test_pieces(void **state)
{
	struct bb_secret *secret = open_secret("0123456789abcdef");
	const struct bb_identity identity[2] = {identity_of(1, secret), identity_of(0, secret)};
	struct connection c = connect_sides(), other = connect_sides();
	const unsigned char *bytes = (const unsigned char *)&c.greet[BB_SIDE_SERVER].mine;

	assert_true(bb_greet_send(&c.greet[BB_SIDE_SERVER], &identity[BB_SIDE_SERVER],
				  other.fd[BB_SIDE_SERVER], BB_SIDE_SERVER));
	for (size_t i = 0; i < sizeof(struct bb_greeting); i++) {
		assert_int_equal(receive(&c, identity, BB_SIDE_CLIENT), 0);
		assert_int_equal(send(c.fd[BB_SIDE_SERVER], &bytes[i], 1, 0), 1);
	}
	assert_int_equal(receive(&c, identity, BB_SIDE_CLIENT), 1);
	assert_memory_equal(&c.greet[BB_SIDE_CLIENT].theirs, bytes, sizeof(struct bb_greeting));
	close(c.fd[BB_SIDE_SERVER]);
	assert_int_equal(receive(&c, identity, BB_SIDE_CLIENT), -1);
	assert_int_equal(c.greet[BB_SIDE_CLIENT].error, EKEYREJECTED);
	close(c.fd[BB_SIDE_CLIENT]);

	/* Before its hello is whole, it is no question of the secret. */
	close(other.fd[BB_SIDE_CLIENT]);
	assert_int_equal(receive(&other, identity, BB_SIDE_SERVER), -1);
	assert_int_equal(other.greet[BB_SIDE_SERVER].error, ECONNRESET);
	assert_false(bb_greet_send(&other.greet[BB_SIDE_SERVER], &identity[BB_SIDE_SERVER],
				   other.fd[BB_SIDE_SERVER], BB_SIDE_SERVER));
	close(other.fd[BB_SIDE_SERVER]);
	bb_secret_close(secret);
}

/* Each reason has its own words, and those of a wrong secret name its variable. */
static void test_words(void **state)
{
	static const int errors[] = {ENOKEY, EKEYREJECTED, EPROTO, ECONNRESET, ETIMEDOUT};

	for (int i = 0; i < 5; i++) {
		assert_true((strstr(bb_greet_explain(errors[i]), BB_SECRET_VARIABLE) != NULL) ==
			    (i < 2));
		for (int k = 0; k < i; k++)
			assert_string_not_equal(bb_greet_explain(errors[i]),
						bb_greet_explain(errors[k]));
	}
	assert_string_equal(bb_greet_explain(ETIMEDOUT), strerror(ETIMEDOUT));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain),        cmocka_unit_test(test_password),
		cmocka_unit_test(test_one_has_none), cmocka_unit_test(test_proofs),
		cmocka_unit_test(test_echo),         cmocka_unit_test(test_replay),
		cmocka_unit_test(test_pieces),       cmocka_unit_test(test_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
