/**
 * Names of programs that do a GPU's work on the processor, as WebGPU's adapters and WebGL's
 * renderers have them.
 */
export const SOFTWARE_RENDERER = /swiftshader|llvmpipe|software|basic render/i;
