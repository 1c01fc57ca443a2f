/*
 * embed.h - text files of the source tree as data of the program, so that a binary that is copied
 * elsewhere has them too.
 */
#pragma once

/* Define SYMBOL, a const char array: the bytes of the file PATH, from the root of the source tree,
   and a NUL. */
#define BB_EMBED(symbol, path)                                                                     \
	extern const char symbol[];                                                                \
	__asm__(".pushsection .rodata\n"                                                           \
		".globl " #symbol "\n"                                                             \
		".hidden " #symbol "\n" #symbol ":\n"                                              \
		".incbin \"" path "\"\n"                                                           \
		".byte 0\n"                                                                        \
		".popsection\n")
