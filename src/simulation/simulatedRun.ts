/**
 * Creates the events that the engine of a rank in a simulated cluster would emit. The dashboard
 * shows them like the events of a real run. The times come from `cluster.ts`. No model is trained,
 * so loss and accuracy follow a formula.
 */
import { rightOf } from '../collectives/plans/ringPlan.ts';
import type { RosterEntry } from '../protocol/room.ts';
import type { EngineEvent, RankTelemetry } from '../protocol/events.ts';
import type { LinkRoute, RankStatistics } from '../protocol/runEvents.ts';
import type { StepLane } from '../protocol/stepTrace.ts';
import { parseJob } from '../spec/job.ts';
import { exposedWait, laneOf, simplify } from '../telemetry/stepLane.ts';
import { createRng, mixSeed } from '../util/rng.ts';
import { clusterOf, simulateStep, type Cluster, type SimulatedStep } from './cluster.ts';

interface SimulatedRun {
  /** The first events of a run: those of the room, the generation and the model. */
  beginning: readonly EngineEvent[];
  /** Returns the events of the next step. */
  next: () => EngineEvent[];
}

/** The rank whose events these are. */
const SEEN_BY = 0;
const BATCH = 32;
/** Number of steps in a report of a rank to the others. */
const REPORTED_STEPS = 8;
/** Size of the mlp's gradients in bytes. */
const GRADIENT_BYTES = 203_560;
const TRAIN_SAMPLES = 60_000;
const NAMES = ['Ada', 'Alan', 'Barbara', 'Claude', 'Donald', 'Edsger', 'Frances', 'Grace', 'Hedy', 'John', 'Katherine'];

/** @param note text on the page that says that the run is simulated. */
export function simulatedRun(n: number, seed: number, note: string): SimulatedRun {
  const cluster = clusterOf(n, seed);
  const job = parseJob({ seed, batchSize: BATCH, epochs: 5, hashEvery: 10 });
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
        parameters: GRADIENT_BYTES / 4,
        gradientBytes: GRADIENT_BYTES,
        bucketBytes: [GRADIENT_BYTES],
        totalSteps: 5 * stepsPerPass,
        trainSamples: TRAIN_SAMPLES,
        testSamples: 10_000,
      },
      // The links to the left and to the right neighbour. With two ranks, both are the same link.
      ...[n - 1, SEEN_BY].map((from): EngineEvent => {
        const peerRank = from === SEEN_BY ? rightOf(SEEN_BY, n) : from;
        return { type: 'link', peerRank, up: true, ...wayOf(cluster, from) };
      }),
      { type: 'state', state: 'RUNNING', generation: 1, detail: '', isServerAway: false, connecting: [] },
      { type: 'note', message: note },
    ],
    next: () => {
      const steps = simulateStep(cluster, step, GRADIENT_BYTES);
      const began = at;
      at += Math.max(...steps.map(({ ms }) => ms.total));
      const own = steps[SEEN_BY]!;
      for (const rank of sent.keys()) sent[rank]! += (2 * (n - 1) * GRADIENT_BYTES) / n;
      const lanes = steps.map((simulated) =>
        laneOf({ step, startedAt: began, ms: simulated.ms, traces: [shifted(simulated, began)] }),
      );
      for (const [rank, lane] of lanes.entries())
        reported[rank] = [...reported[rank]!, simplify(lane)].slice(-REPORTED_STEPS);
      const events: EngineEvent[] = [
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
            waitMs: exposedWait(lanes[rank]!, ms),
            right: {
              ...wayOf(cluster, rank),
              ...bytes,
              transitMs: latencyMs + GRADIENT_BYTES / n / rate,
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

/** Returns the route and the round-trip time from a rank to its right neighbour. */
function wayOf({ machines }: Cluster, from: number): { route: LinkRoute; roundTripMs: number } {
  const { isRelayed, latencyMs } = machines[from]!;
  return { route: isRelayed ? 'relayed' : 'direct', roundTripMs: 2 * latencyMs };
}

function shifted({ startedAt, hops }: SimulatedStep, by: number): { startedAt: number; hops: SimulatedStep['hops'] } {
  return {
    startedAt: startedAt + by,
    hops: hops.map((hop) => ({ ...hop, sentAt: hop.sentAt! + by, receivedAt: hop.receivedAt! + by })),
  };
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
