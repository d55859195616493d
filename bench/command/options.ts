/** Command-line options that several benchmarks have. */
import { InvalidArgumentError, Option } from 'commander';
import { wholeNumber } from '../../launcher/options/jobOptions.ts';
import { MAX_WORLD_SIZE } from '../../src/protocol/scalars.ts';

/** Creates an option whose value is parsed. */
export function option<Value>(
  flags: string,
  description: string,
  parse: (text: string) => Value,
  byDefault?: NoInfer<Value>,
): Option {
  return new Option(flags, description).argParser(parse).default(byDefault);
}

/** Returns a parser of a comma-separated list. */
export function listOf<Value>(parse: (text: string) => Value) {
  return (text: string): Value[] => text.split(',').map(parse);
}

/** Returns a parser that accepts these names only. */
export function oneOf<Name extends string>(names: readonly Name[]) {
  return (text: string): Name => {
    const name = names.find((known) => known === text);
    if (name === undefined) throw new InvalidArgumentError(`Pass one of: ${names.join(', ')}.`);
    return name;
  };
}

export function tabsOption(byDefault: number, description = 'world size'): Option {
  return option('--tabs <n>', description, wholeNumber(2, MAX_WORLD_SIZE), byDefault);
}

export function worldSizesOption(): Option {
  return option('--tabs <n,..>', 'world sizes', listOf(wholeNumber(2, MAX_WORLD_SIZE)), [2, 4, 8]);
}

/** An option for a folder with MNIST's files. Without it, digits are generated. */
export function digitsOption(): Option {
  return new Option('--data <folder>', "folder with MNIST's IDX files (default: generated digits)");
}
