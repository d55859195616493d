/**
 * A simulated cluster, to try the dashboard with many ranks. Its machines have different speeds and
 * its links have different rates. `simulate.ts` runs the same plans as real ranks. The
 * functions are pure, and the same seed always results in the same cluster.
 */
import { allReducePlanner } from '../collectives/plans/algorithms.ts';
import { planStepNumbers } from '../collectives/plans/plans.ts';
import { collectiveSimulationScheduleOf } from './schedule.ts';
import { simulateCollective } from './simulate.ts';
import type { HopEvent, StepTimes } from '../protocol/stepTrace.ts';
import type { AllReduceName } from '../spec/algorithms.ts';
import { createRng, mixSeed, type Rng } from '../util/rng.ts';

export interface SimulatedCluster {
  seed: number;
  machines: readonly SimulatedMachine[];
}

export interface SimulatedMachine {
  /** Time of the forward and backward pass, milliseconds. */
  computeMs: number;
  /** Rate of the link to the right neighbour, bytes per millisecond. */
  rate: number;
  /** Latency per chunk of that link, milliseconds. */
  latencyMs: number;
  isRelayed: boolean;
}

/**
 * One step of one rank, on a clock that all ranks share. The step begins at 0, and `startedAt` is
 * the time when the rank starts the all-reduce.
 */
export interface SimulatedStep {
  ms: StepTimes;
  startedAt: number;
  algorithm: AllReduceName;
  hops: HopEvent[];
}

/** Time that a laptop's GPU needs for a step of a small model, milliseconds. */
const COMPUTE_MS = 24;
const READBACK_MS = 3;
const UPDATE_MS = 2;
/** Rate of a classroom's Wi-Fi, bytes per millisecond: about 100 Mbit/s. */
const RATE = 12_000;
const LATENCY_MS = 0.8;
/** Time to add two float32 numbers that are in memory, milliseconds per byte. */
const COMBINE_MS_PER_BYTE = 1 / 2_000_000;
const FLOAT_BYTES = 4;

/**
 * Creates a cluster. One of its machines is old and takes twice as long. One of its links uses a
 * relay.
 */
export function createSimulatedCluster(n: number, seed: number): SimulatedCluster {
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

/** Returns the times of all ranks for a step that all-reduces `bytes` of gradients. */
export function simulateStep(
  { seed, machines }: SimulatedCluster,
  step: number,
  bytes: number,
  algorithm: AllReduceName,
): SimulatedStep[] {
  const n = machines.length;
  const rng = createRng(mixSeed(seed, step, n));
  const computed = machines.map(({ computeMs }) => computeMs * between(rng, 0.95, 1.1));
  const startedAt = computed.map((ms) => ms + READBACK_MS);
  const count = bytes / FLOAT_BYTES;
  const network = {
    // Rates vary from step to step.
    resources: machines.map(({ rate }) => ({ msPerByte: between(rng, 0.9, 1.2) / rate, msPerFrame: 0 })),
    pathOf: (from: number) => ({
      first: from,
      second: null,
      latencyMs: machines[from]!.latencyMs,
      latencyMsPerByte: 0,
    }),
    combineMsPerByte: COMBINE_MS_PER_BYTE,
  };
  const planner = allReducePlanner(algorithm, n, count);
  const { endedAt, endOf } = simulateCollective(collectiveSimulationScheduleOf(planner, n), {
    network,
    elementBytes: FLOAT_BYTES,
    startAt: startedAt,
  });
  return startedAt.map((began, rank) => {
    const exposed = Math.max(0, endedAt[rank]! - began);
    const plan = planner(rank);
    const hops = planStepNumbers(plan).map((planStep): HopEvent => {
      const received = plan.find((move) => move.step === planStep && move.kind === 'receive');
      const added = received === undefined || received.how === 'copy' ? 0 : received.end - received.start;
      return {
        planStep,
        sentAt: endOf(rank, 'send', planStep),
        receivedAt: endOf(rank, 'receive', planStep),
        reduceMs: added * FLOAT_BYTES * COMBINE_MS_PER_BYTE,
      };
    });
    return {
      ms: {
        total: began + exposed + UPDATE_MS,
        data: 0,
        compute: computed[rank]!,
        readback: READBACK_MS,
        communicate: exposed,
        exposed,
        update: UPDATE_MS,
      },
      startedAt: began,
      algorithm,
      hops,
    };
  });
}

function between(rng: Rng, low: number, high: number): number {
  return low + (high - low) * rng.next();
}
