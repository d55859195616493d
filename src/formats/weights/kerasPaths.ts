/** Paths of weights in files of Keras's format. */
import type { KerasTopology } from './namedTensor.ts';

/** Names of Keras's classes that differ from those of TensorFlow.js. */
const CLASSES: Readonly<Record<string, string>> = {
  Model: 'Functional',
  // Keras has no class of this name, but a BatchNormalization with `synchronized=True`.
  SyncBatchNormalization: 'BatchNormalization',
};

/**
 * Returns a map from the name of each weight in this project to its path in Keras's file.
 *
 * @param parent the path of the model's layers. A nested model is in its own group.
 */
export function kerasPaths(
  { config }: Pick<KerasTopology, 'config'>,
  names: readonly string[],
  parent = 'layers',
): Map<string, string> {
  const used = new Map<string, number>();
  const paths = new Map<string, string>();
  for (const { class_name: className, config: layer } of config.layers) {
    const kind = snakeCase(CLASSES[className] ?? className);
    const before = used.get(kind) ?? 0;
    used.set(kind, before + 1);
    const path = `${parent}/${kind}${before > 0 ? `_${before}` : ''}`;
    const { layers } = layer;
    const own = layers
      ? kerasPaths({ config: { layers } }, names, `${path}/layers`)
      : names
          .filter((name) => name.startsWith(`${layer.name}/`))
          .map((name, i) => [name, `${path}/vars/${i}`] as const);
    for (const [name, place] of own) paths.set(name, place);
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
