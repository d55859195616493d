/**
 * A simulated cluster, to view a dashboard with many ranks: machines with different speeds, links
 * with different rates, and the real ring plan between them (`simulate.ts`). Pure, and the same for
 * the same seed.
 */
import { ringAllReduce } from '../collectives/plans/plans.ts';
import { chunkRange, modulo, ringStepCount, transferFrom } from '../collectives/plans/ringPlan.ts';
import { scheduleOf } from './schedule.ts';
import { simulate } from './simulate.ts';
import type { HopEvent, StepTimes } from '../protocol/stepTrace.ts';
import { createRng, mixSeed, type Rng } from '../util/rng.ts';

export interface Cluster {
  seed: number;
  machines: readonly Machine[];
}

export interface Machine {
  /** Forward and backward pass, milliseconds. */
  computeMs: number;
  /** Link to its right neighbour: bytes per millisecond, and latency per chunk. */
  rate: number;
  latencyMs: number;
  isRelayed: boolean;
}

/** One step of one rank, on a clock that all ranks share; the step begins at 0. */
export interface SimulatedStep {
  ms: StepTimes;
  startedAt: number;
  hops: HopEvent[];
}

/** A laptop's GPU on a small model. */
const COMPUTE_MS = 24;
const READBACK_MS = 3;
const UPDATE_MS = 2;
/** A classroom's Wi-Fi, bytes per millisecond: about 100 Mbit/s. */
const RATE = 12_000;
const LATENCY_MS = 0.8;
/** Adding two float32 from memory, milliseconds per byte. */
const COMBINE_MS_PER_BYTE = 1 / 2_000_000;
const FLOAT_BYTES = 4;

/** One machine is old and takes twice as long; one link uses a relay. */
export function clusterOf(n: number, seed: number): Cluster {
  const rng = createRng(mixSeed(seed, n));
  const old = rng.below(n);
  const relayed = rng.below(n);
  const machines = Array.from({ length: n }, (_, rank) => ({
    computeMs: COMPUTE_MS * between(rng, 0.85, 1.15) * (rank === old ? 2 : 1),
    rate: RATE * between(rng, 0.7, 1.3) * (rank === relayed ? 0.35 : 1),
    latencyMs: LATENCY_MS * between(rng, 0.7, 1.5) * (rank === relayed ? 4 : 1),
    isRelayed: rank === relayed,
  }));
  return { seed, machines };
}

/** All ranks' times of a step in which `bytes` of gradients are all-reduced. */
export function simulateStep({ seed, machines }: Cluster, step: number, bytes: number): SimulatedStep[] {
  const n = machines.length;
  const rng = createRng(mixSeed(seed, step, n));
  const computed = machines.map(({ computeMs }) => computeMs * between(rng, 0.95, 1.1));
  const startedAt = computed.map((ms) => ms + READBACK_MS);
  const count = bytes / FLOAT_BYTES;
  const network = {
    // Rates vary from step to step.
    lines: machines.map(({ rate }) => ({ msPerByte: between(rng, 0.9, 1.2) / rate, msPerFrame: 0 })),
    pathOf: (from: number) => ({
      first: from,
      second: null,
      latencyMs: machines[from]!.latencyMs,
      latencyMsPerByte: 0,
    }),
    combineMsPerByte: COMBINE_MS_PER_BYTE,
  };
  const schedule = scheduleOf((rank) => ringAllReduce(rank, n, count), n);
  const { endedAt, endOf } = simulate(schedule, { network, elementBytes: FLOAT_BYTES, startAt: startedAt });
  return startedAt.map((began, rank) => {
    const exposed = Math.max(0, endedAt[rank]! - began);
    const hops = Array.from({ length: ringStepCount(n) }, (_, ringStep): HopEvent => {
      const receivedChunk = transferFrom(n, ringStep, modulo(rank - 1, n)).chunk;
      const { start, end } = chunkRange(count, n, receivedChunk);
      return {
        ringStep,
        sentChunk: transferFrom(n, ringStep, rank).chunk,
        receivedChunk,
        sentAt: endOf(rank, 'send', ringStep),
        receivedAt: endOf(rank, 'receive', ringStep),
        reduceMs: ringStep < n - 1 ? (end - start) * FLOAT_BYTES * COMBINE_MS_PER_BYTE : 0,
      };
    });
    return {
      ms: {
        total: began + exposed + UPDATE_MS,
        compute: computed[rank]!,
        readback: READBACK_MS,
        communicate: exposed,
        exposed,
        update: UPDATE_MS,
      },
      startedAt: began,
      hops,
    };
  });
}

function between(rng: Rng, low: number, high: number): number {
  return low + (high - low) * rng.next();
}
