/**
 * Lets kernels use extensions of WGSL. TensorFlow.js inserts a kernel's code in the middle of a
 * shader, but directives such as `enable f16;` must precede all declarations.
 */

const DIRECTIVE = /^\s*enable [a-z0-9_]+;\s*$/gm;

/**
 * Moves the `enable` directives of all shaders of `gpu` to the start. Replaces a method of this
 * device object, so it must be called before the device is passed on.
 */
export function moveEnableDirectives(gpu: GPUDevice): void {
  const create = gpu.createShaderModule.bind(gpu);
  gpu.createShaderModule = (descriptor) => create({ ...descriptor, code: withDirectivesFirst(descriptor.code) });
}

export function withDirectivesFirst(code: string): string {
  const directives = [...new Set(code.match(DIRECTIVE)?.map((line) => line.trim()))];
  return directives.length === 0 ? code : [...directives, code.replace(DIRECTIVE, '')].join('\n');
}
