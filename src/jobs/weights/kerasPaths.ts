/** Paths of weights in files of Keras's format. */
import type { Topology } from './namedTensor.ts';

/**
 * Returns the path that each weight has in Keras's file, by the name of the weight in this project.
 */
export function kerasPaths({ config }: Topology, names: readonly string[]): Map<string, string> {
  const used = new Map<string, number>();
  const paths = new Map<string, string>();
  for (const { class_name: className, config: layer } of config.layers) {
    const kind = snakeCase(className);
    const before = used.get(kind) ?? 0;
    used.set(kind, before + 1);
    const own = names.filter((name) => name.startsWith(`${layer.name}/`));
    for (const [i, name] of own.entries()) paths.set(name, `layers/${kind}${before > 0 ? `_${before}` : ''}/vars/${i}`);
  }
  return paths;
}

/**
 * Converts a class name as Keras's `to_snake_case` does: `Conv2D` becomes conv2d,
 * `BatchNormalization` becomes batch_normalization.
 */
function snakeCase(className: string): string {
  return className
    .replaceAll(/(.)([A-Z][a-z]+)/g, '$1_$2')
    .replaceAll(/([a-z])([A-Z])/g, '$1_$2')
    .toLowerCase();
}
