/** Options of benchmarks. */
import { Option } from 'commander';
import { wholeNumber } from '../../launcher/options/jobOptions.ts';
import { MAX_WORLD_SIZE } from '../../src/protocol/scalars.ts';

/** An option with a parsed value. */
export function option<Value>(
  flags: string,
  description: string,
  parse: (text: string) => Value,
  byDefault?: NoInfer<Value>,
): Option {
  return new Option(flags, description).argParser(parse).default(byDefault);
}

/** Parses a comma-separated list. */
export function listOf<Value>(parse: (text: string) => Value) {
  return (text: string): Value[] => text.split(',').map(parse);
}

export function tabsOption(byDefault: number, description = 'world size'): Option {
  return option('--tabs <n>', description, wholeNumber(2, MAX_WORLD_SIZE), byDefault);
}

export function worldSizesOption(): Option {
  return option('--tabs <n,..>', 'world sizes', listOf(wholeNumber(2, MAX_WORLD_SIZE)), [2, 4, 8]);
}

export function hostsOption(): Option {
  return new Option(
    '--hosts <script>',
    'command that creates hosts on capped lines (see bench/world/hosts.ts); needs root',
  );
}

export function mnistOption(): Option {
  return new Option('--data <folder>', "folder with MNIST's IDX files").makeOptionMandatory();
}

/** MNIST's files, or generated digits without them. */
export function digitsOption(): Option {
  return new Option('--data <folder>', "folder with MNIST's IDX files (default: generated digits)");
}
