/** Every benchmark of docs/BENCHMARKS.md, in its order: how it is run, and how it reads. */
import { section as allReduce } from '../allreduce/section.ts';
import { section as auto } from '../auto/section.ts';
import { section as codecs } from '../codecs/section.ts';
import { section as lines } from '../lines/section.ts';
import { section as link } from '../link/section.ts';
import { section as optimizer } from '../optimizer/section.ts';
import { section as order } from '../order/section.ts';
import { section as scale } from '../scale/section.ts';
import { section as signaling } from '../signaling/section.ts';
import { section as spread } from '../spread/section.ts';
import { section as step } from '../step/section.ts';
import { section as strategies } from '../strategies/section.ts';
import { section as telemetry } from '../telemetry/section.ts';

/** What only some machines have; without it, what needs it is left out. */
interface Needs {
  /** Folder of MNIST's IDX files. */
  data?: string;
  /** Script that makes hosts with capped lines, as root. */
  hosts?: string;
}

export interface Part {
  /** Of the command, and of the marks in the document. */
  name: string;
  argv: readonly string[];
  section: (result: unknown) => string;
}

export function partsOf({ data, hosts }: Needs): Part[] {
  const onData = data === undefined ? [] : ['--data', data];
  const onHosts = hosts === undefined ? [] : ['--hosts', hosts];
  return [
    part('allreduce', [], allReduce),
    part('link', [], link),
    part('spread', [], spread),
    ...(hosts === undefined ? [] : [part('lines', onHosts, lines)]),
    part('step', [...onHosts, '--picture', 'docs/buckets.png'], step),
    part('optimizer', [], optimizer),
    part('telemetry', ['--tabs', '2', '--steps', '400'], telemetry),
    part('codecs', [...onData, ...onHosts], codecs),
    ...(hosts === undefined || data === undefined
      ? []
      : [part('auto', [...onData, ...onHosts], auto), part('order', [...onData, ...onHosts], order)]),
    part('strategies', [], strategies),
    part('scale', ['--picture', 'docs/scale.png'], scale),
    part('signaling', [], signaling),
  ];
}

/** `section` takes what the command of that name prints: both are of one folder. */
function part(name: string, options: readonly string[], section: (result: never) => string): Part {
  return { name, argv: [name, ...options], section: (result) => section(result as never) };
}
