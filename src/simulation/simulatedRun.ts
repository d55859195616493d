/**
 * Creates the events that the engine of a rank in a simulated cluster would emit. The dashboard
 * shows them like the events of a real run. The times come from `cluster.ts`. No model is trained,
 * so loss and accuracy follow a formula.
 */
import { allReducePlanner, autoAlgorithm } from '../collectives/plans/algorithms.ts';
import type { CollectivePlan } from '../collectives/plans/plans.ts';
import { rightNeighbourOf } from '../collectives/plans/ringPlan.ts';
import type { RosterEntry } from '../protocol/room.ts';
import type { EngineEvent, RankTelemetry } from '../protocol/events.ts';
import type { LinkRoute, RankStatistics } from '../protocol/runEvents.ts';
import type { StepLane } from '../protocol/stepTrace.ts';
import type { AlgorithmName } from '../spec/algorithms.ts';
import { parseJob } from '../spec/job.ts';
import { exposedWaitMs, stepLaneOf, MAX_SENT_SEGMENTS, simplifyLane } from '../telemetry/stepLane.ts';
import { createRng, mixSeed } from '../util/rng.ts';
import { createSimulatedCluster, simulateStep, type SimulatedCluster, type SimulatedStep } from './cluster.ts';

interface SimulatedRun {
  /** The first events of a run: those of the room, the generation and the model. */
  beginning: readonly EngineEvent[];
  /** Returns the events of the next step. */
  next: () => EngineEvent[];
}

/** The rank whose events these are. */
const SEEN_BY = 0;
const BATCH = 32;
/** Number of steps that a rank's report to the other ranks covers. */
const REPORTED_STEPS = 8;
/** Size of the mlp's gradients in bytes. */
const GRADIENT_BYTES = 203_560;
const ELEMENT_BYTES = 4;
const ELEMENTS = GRADIENT_BYTES / ELEMENT_BYTES;
const TRAIN_SAMPLES = 60_000;
const NAMES = ['Ada', 'Alan', 'Barbara', 'Claude', 'Donald', 'Edsger', 'Frances', 'Grace', 'Hedy', 'John', 'Katherine'];

/**
 * @param algorithm the job's algorithm. The algorithm must support `n` ranks. With `auto`, the cost
 *   model chooses, as in a real run.
 * @param note text on the page that says that the run is simulated.
 */
export function simulatedRun(n: number, seed: number, algorithm: AlgorithmName, note: string): SimulatedRun {
  const cluster = createSimulatedCluster(n, seed);
  const job = parseJob({ seed, batchSize: BATCH, epochs: 5, hashEvery: 10, algorithm });
  const used = algorithm === 'auto' ? autoAlgorithm(n, GRADIENT_BYTES) : algorithm;
  const bytesSent = Array.from({ length: n }, (_, rank) => bytesSentBy(allReducePlanner(used, n, ELEMENTS)(rank)));
  const members: RosterEntry[] = Array.from({ length: n }, (_, rank) => ({
    member: `simulated-${rank}`,
    name: NAMES[rank % NAMES.length]! + (rank < NAMES.length ? '' : ` ${Math.floor(rank / NAMES.length) + 1}`),
    device: { backend: 'webgpu', adapter: 'simulated' },
    browser: rank,
    rank: null,
  }));
  const stepsPerPass = Math.ceil(TRAIN_SAMPLES / (BATCH * n));
  const sent = members.map(() => 0);
  /** Reported steps by rank. */
  const reported = members.map((): StepLane[] => []);
  let step = 0;
  let at = 0;
  return {
    beginning: [
      {
        type: 'room',
        phase: 'RUNNING',
        hosts: [],
        members,
        spectators: [],
        job,
        startAt: null,
        nodes: { min: 1, max: 64 },
        isLocked: false,
        isPausedByHost: false,
        waitingFor: 0,
      },
      {
        type: 'generation',
        generation: 1,
        run: 1,
        rank: SEEN_BY,
        worldSize: n,
        localRank: 0,
        localWorldSize: 1,
        members,
        job,
      },
      {
        type: 'model',
        parameters: ELEMENTS,
        gradientBytes: GRADIENT_BYTES,
        bucketBytes: [GRADIENT_BYTES],
        totalSteps: 5 * stepsPerPass,
        trainSamples: TRAIN_SAMPLES,
        testSamples: 10_000,
      },
      // The links to the left and to the right neighbour. With two ranks, the same link leads to
      // both.
      ...[n - 1, SEEN_BY].map((from): EngineEvent => {
        const peerRank = from === SEEN_BY ? rightNeighbourOf(SEEN_BY, n) : from;
        return { type: 'link', peerRank, up: true, ...wayOf(cluster, from) };
      }),
      { type: 'state', state: 'RUNNING', generation: 1, detail: '', isServerAway: false, connecting: [] },
      { type: 'note', message: note },
    ],
    next: () => {
      const steps = simulateStep(cluster, step, GRADIENT_BYTES, used);
      const began = at;
      at += Math.max(...steps.map(({ ms }) => ms.total));
      const own = steps[SEEN_BY]!;
      for (const rank of sent.keys()) sent[rank]! += bytesSent[rank]!;
      const lanes = steps.map((simulated) =>
        stepLaneOf({ step, startedAt: began, ms: simulated.ms, traces: [shifted(simulated, began)] }),
      );
      for (const [rank, lane] of lanes.entries())
        reported[rank] = [...reported[rank]!, simplifyLane(lane, MAX_SENT_SEGMENTS)].slice(-REPORTED_STEPS);
      const events: EngineEvent[] = [
        ...(step === 0 ? [{ type: 'algorithm' as const, step, algorithm: used }] : []),
        { type: 'trace', step, bucket: 0, bytes: GRADIENT_BYTES, ...shifted(own, began) },
        { type: 'segments', lane: lanes[SEEN_BY]! },
        {
          type: 'step',
          step,
          epoch: Math.floor(step / stepsPerPass),
          offset: (step % stepsPerPass) * BATCH * n,
          loss: lossAt(step, n, seed),
          samples: BATCH * n,
          ms: own.ms,
          at,
        },
      ];
      step += 1;
      if (step % job.hashEvery === 0 || step === 2) {
        const last = step - 1;
        const statistics: RankStatistics[] = steps.map(({ ms }, rank) => ({
          rank,
          dataMs: ms.data,
          computeMs: ms.compute,
          communicateMs: ms.communicate,
          stepMs: ms.total,
          gradientBytesSent: sent[rank]!,
          gradientBytesReceived: sent[rank]!,
          otherBytesSent: 0,
          memoryBytes: 0,
        }));
        const telemetry: RankTelemetry[] = steps.map(({ ms }, rank) => {
          const { latencyMs, rate } = cluster.machines[rank]!;
          const bytes = { bytesSent: sent[rank]!, bytesReceived: sent[rank]! / 100 };
          return {
            rank,
            isHidden: false,
            waitMs: exposedWaitMs(lanes[rank]!, ms),
            right: {
              ...wayOf(cluster, rank),
              ...bytes,
              transitMs: used === 'ring' ? latencyMs + GRADIENT_BYTES / n / rate : null,
            },
            clock: { offsetMs: 0, errorMs: 0 },
            lanes: reported[rank]!,
          };
        });
        events.push(
          { type: 'ranks', step: last, ranks: statistics },
          { type: 'telemetry', step: last, ranks: telemetry },
          { type: 'hashes', step: last, hashes: members.map(() => `5e${seed}${last}`), agree: true },
          { type: 'evaluation', step: last, loss: lossAt(last, n, seed), accuracy: accuracyAt(last, n), samples: 500 },
        );
      }
      return events;
    },
  };
}

/**
 * Returns the route, the round-trip time and the connections of the link from a rank to its right
 * neighbour.
 */
function wayOf(
  { machines }: SimulatedCluster,
  from: number,
): { route: LinkRoute; roundTripMs: number; connections: number } {
  const { isRelayed, latencyMs } = machines[from]!;
  return { route: isRelayed ? 'relayed' : 'direct', roundTripMs: 2 * latencyMs, connections: 1 };
}

function shifted({ startedAt, algorithm, hops }: SimulatedStep, by: number): Omit<SimulatedStep, 'ms'> {
  const later = (at: number | null): number | null => (at === null ? null : at + by);
  return {
    startedAt: startedAt + by,
    algorithm,
    hops: hops.map((hop) => ({ ...hop, sentAt: later(hop.sentAt), receivedAt: later(hop.receivedAt) })),
  };
}

/** Returns the bytes of gradients that a rank sends in one all-reduce. */
function bytesSentBy(plan: CollectivePlan): number {
  return plan.reduce((sum, { kind, start, end }) => sum + (kind === 'send' ? (end - start) * ELEMENT_BYTES : 0), 0);
}

/** Returns a loss that is typical of small models on handwritten digits. */
function lossAt(step: number, n: number, seed: number): number {
  const noise = (createRng(mixSeed(seed, step)).next() - 0.5) * 0.5;
  const clean = 0.08 + 2.2 / (1 + (step * Math.sqrt(n)) / 40);
  return clean * (1 + noise / Math.sqrt(n));
}

function accuracyAt(step: number, n: number): number {
  return 0.98 - 0.88 / (1 + (step * Math.sqrt(n)) / 25);
}
