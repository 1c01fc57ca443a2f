/*
 * compat.h - differences between versions of MPI.
 */
#pragma once

#include <limits.h>
#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

/* BB_MPI(Bcast) takes counts up to BB_MPI_MOST, and so does an operation that BB_MPI(Op_create)
   makes of a bb_mpi_operation: MPI 4 has functions for large counts. */
#if MPI_VERSION >= 4
#define BB_MPI(name) MPI_##name##_c
#define BB_MPI_MOST ((size_t)PTRDIFF_MAX)
typedef MPI_Count bb_mpi_count;
typedef MPI_Aint bb_mpi_offset;
typedef MPI_User_function_c bb_mpi_operation;
#else
#define BB_MPI(name) MPI_##name
#define BB_MPI_MOST ((size_t)INT_MAX)
typedef int bb_mpi_count;
typedef int bb_mpi_offset;
typedef MPI_User_function bb_mpi_operation;
#endif

/* The library has control variables that name its algorithms. Others are not opened: MPICH 4.0 does
   not survive an MPI_Init after its tool interface was opened and closed. */
#ifdef OPEN_MPI
#define BB_MPI_NAMES_ALGORITHMS 1
#else
#define BB_MPI_NAMES_ALGORITHMS 0
#endif

/* MPI_Reduce takes MPI_IN_PLACE at every root. MPICH before 4.1.2 crashes at another than 0. */
#if defined(MPICH_NUMVERSION) && MPICH_NUMVERSION < 40102300
#define BB_MPI_REDUCES_IN_PLACE_ANYWHERE 0
#else
#define BB_MPI_REDUCES_IN_PLACE_ANYWHERE 1
#endif
