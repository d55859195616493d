/**
 * `data-parallel`: several replicas of the model in one tab. Each further replica is in a worker
 * with a device of its own, and message ports connect the replicas. As in torch.nn.DataParallel
 * (https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html), gradients are
 * gathered to the first replica, which updates the parameters and sends them back.
 */
import { Mesh } from '../../collectives/mesh.ts';
import { chosenKernels } from '../../kernels/registry.ts';
import type { JobSpec } from '../../spec/job.ts';
import type { Link } from '../../transport/link.ts';
import { createPortLink } from '../../transport/portLink.ts';
import { PeergradError } from '../../util/errors.ts';
import type { KernelChoice } from '../../spec/names.ts';

/** The message that starts a replica's worker. */
export interface ReplicaStart {
  rank: number;
  worldSize: number;
  generation: number;
  job: JobSpec;
  files: File[];
  baseUrl: string;
  /** Kernels of the replica's device. */
  kernels: KernelChoice;
  /** Ports to the other replicas, with their ranks. */
  ports: [rank: number, port: MessagePort][];
}

export interface Replicas {
  /** The mesh of the first replica. The caller trains that replica. */
  readonly mesh: Mesh;
  readonly links: ReadonlyMap<number, Link>;
  /** Stops the other replicas. */
  stop(): void;
}

/** Starts replicas 1 .. worldSize-1. Calls `onfailure` if one of their workers stops. */
export function startReplicas(
  { worldSize, generation, job, files, baseUrl }: Omit<ReplicaStart, 'rank' | 'ports' | 'kernels'>,
  onfailure: (error: Error) => void,
): Replicas {
  const ports = portsOf(worldSize);
  const kernels = chosenKernels();
  const workers = ports.slice(1).map((mine, i) => {
    const rank = i + 1;
    const worker = new Worker(new URL('./replicaWorker.ts', import.meta.url), { type: 'module' });
    worker.addEventListener('error', ({ message }) => {
      onfailure(
        new PeergradError(`Replica ${rank} stopped (${message || 'it could not be loaded'}). Reload the page.`),
      );
    });
    const start: ReplicaStart = { rank, worldSize, generation, job, files, baseUrl, ports: mine, kernels };
    worker.postMessage(
      start,
      mine.map(([, port]) => port),
    );
    return worker;
  });
  const { mesh, links } = meshOf(0, worldSize, generation, ports[0]!);
  return {
    mesh,
    links,
    stop() {
      for (const worker of workers) worker.terminate();
    },
  };
}

/** Returns the mesh of one replica, which uses the replica's ports. */
export function meshOf(
  rank: number,
  worldSize: number,
  generation: number,
  ports: ReplicaStart['ports'],
): Pick<Replicas, 'mesh' | 'links'> {
  const links = new Map(ports.map(([peer, port]) => [peer, createPortLink(port)]));
  return { mesh: new Mesh({ rank, worldSize, generation, links }), links };
}

/** Creates a message channel between each pair of replicas. Returns the ports of each rank. */
function portsOf(worldSize: number): ReplicaStart['ports'][] {
  const ports: ReplicaStart['ports'][] = Array.from({ length: worldSize }, () => []);
  for (let a = 0; a < worldSize; a++) {
    for (let b = a + 1; b < worldSize; b++) {
      const { port1, port2 } = new MessageChannel();
      ports[a]!.push([b, port1]);
      ports[b]!.push([a, port2]);
    }
  }
  return ports;
}
