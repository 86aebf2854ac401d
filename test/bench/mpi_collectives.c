/*===- mpi_collectives.c - A collective of MPI, timed as `ccl run` times ours --===
 *
 *   mpirun -n N mpi_collectives COLLECTIVE BYTES:WARMUP:ITERATIONS ...
 *
 * For each argument one JSON object: bytes of the larger buffer of a rank, the slowest
 * rank's mean time of a call in microseconds, and how many elements were wrong. Calls
 * follow each other without a barrier, after one; floats, summed; root 0; out of place
 * except broadcast, which MPI has in place only. A peer gets fewer iterations than asked
 * for if they would take over half a second.
 *===-----------------------------------------------------------------------===*/
#include <mpi.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks;
static const char *collective;
static float *in, *out;
static int64_t count; /* elements of one shard */

static int is(const char *name) { return strcmp(collective, name) == 0; }

/* Shards in the larger buffer of a rank. */
static int64_t shards(void) {
  return is("all_reduce") || is("broadcast") || is("reduce") ? 1 : ranks;
}
static int64_t inElements(void) {
  return is("reduce_scatter") || is("scatter") || is("all_to_all") ? count * ranks : count;
}
static int64_t outElements(void) {
  return is("all_gather") || is("gather") || is("all_to_all") ? count * ranks : count;
}

static void call(void) {
  const int n = (int)count;
  if (is("all_reduce"))
    MPI_Allreduce(in, out, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  else if (is("all_gather"))
    MPI_Allgather(in, n, MPI_FLOAT, out, n, MPI_FLOAT, MPI_COMM_WORLD);
  else if (is("reduce_scatter"))
    MPI_Reduce_scatter_block(in, out, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  else if (is("broadcast"))
    MPI_Bcast(in, n, MPI_FLOAT, 0, MPI_COMM_WORLD);
  else if (is("reduce"))
    MPI_Reduce(in, out, n, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
  else if (is("gather"))
    MPI_Gather(in, n, MPI_FLOAT, out, n, MPI_FLOAT, 0, MPI_COMM_WORLD);
  else if (is("scatter"))
    MPI_Scatter(in, n, MPI_FLOAT, out, n, MPI_FLOAT, 0, MPI_COMM_WORLD);
  else if (is("all_to_all"))
    MPI_Alltoall(in, n, MPI_FLOAT, out, n, MPI_FLOAT, MPI_COMM_WORLD);
  else
    MPI_Barrier(MPI_COMM_WORLD);
}

/* What rank r has at place i of its input: small, so that sums are exact. */
static float input(int r, int64_t i) { return (float)((r * 7 + i % 13) % 31); }

static float expected(int64_t i) {
  float sum = 0;
  if (is("broadcast"))
    return input(0, i);
  if (is("scatter"))
    return input(0, rank * count + i);
  if (is("all_gather") || is("gather"))
    return input((int)(i / count), i % count);
  if (is("all_to_all"))
    return input((int)(i / count), rank * count + i % count);
  for (int r = 0; r < ranks; ++r)
    sum += input(r, is("reduce_scatter") ? rank * count + i : i);
  return sum;
}

static void fill(void) {
  for (int64_t i = 0; i < inElements(); ++i)
    in[i] = input(rank, i);
  for (int64_t i = 0; i < outElements(); ++i)
    out[i] = -1;
}

static int64_t countWrong(void) {
  const float *found = is("broadcast") ? in : out;
  int64_t wrong = 0;
  if (is("barrier") || (rank != 0 && (is("reduce") || is("gather"))))
    return 0;
  for (int64_t i = 0; i < outElements(); ++i)
    wrong += found[i] != expected(i);
  return wrong;
}

/* The slowest rank's mean of `iterations` calls, in microseconds. */
static double measure(int iterations) {
  double begin, us, slowest;
  MPI_Barrier(MPI_COMM_WORLD);
  begin = MPI_Wtime();
  for (int i = 0; i < iterations; ++i)
    call();
  us = iterations ? (MPI_Wtime() - begin) * 1e6 / iterations : 0;
  MPI_Allreduce(&us, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return slowest;
}

static int runSize(int64_t bytes, int warmup, int iterations) {
  const double budgetUs = 0.5e6;
  double cold, us;
  int64_t wrong, all;
  count = bytes / (int64_t)sizeof(float) / shards();
  if (count < 1)
    count = 1;
  in = malloc((size_t)inElements() * sizeof(float));
  out = malloc((size_t)outElements() * sizeof(float));
  if (!in || !out) {
    fprintf(stderr, "rank %d: no memory for %lld bytes\n", rank, (long long)bytes);
    return 1;
  }
  fill();
  cold = measure(1);
  wrong = countWrong();
  MPI_Allreduce(&wrong, &all, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
  if (warmup > 0 && cold * warmup > budgetUs)
    warmup = 1 + (int)(budgetUs / cold);
  us = measure(warmup);
  if (us * iterations > budgetUs)
    iterations = 1 + (int)(budgetUs / us);
  us = measure(iterations);
  if (rank == 0) {
    printf("{\"collective\":\"%s\",\"ranks\":%d,\"bytes\":%lld,\"iterations\":%d,"
           "\"time_us\":%.4f,\"wrong\":%lld}\n",
           collective, ranks, (long long)bytes, iterations, us, (long long)all);
    fflush(stdout);
  }
  free(in);
  free(out);
  return 0;
}

int main(int argc, char **argv) {
  int status = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  collective = argc > 1 ? argv[1] : "";
  for (int a = 2; a < argc && status == 0; ++a) {
    long long bytes;
    int warmup, iterations;
    if (sscanf(argv[a], "%lld:%d:%d", &bytes, &warmup, &iterations) != 3) {
      fprintf(stderr, "not BYTES:WARMUP:ITERATIONS: %s\n", argv[a]);
      status = 2;
    } else {
      status = runSize(bytes, warmup, iterations);
    }
  }
  if (status)
    MPI_Abort(MPI_COMM_WORLD, status);
  MPI_Finalize();
  return 0;
}
