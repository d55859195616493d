/** Matches the names of WebGPU adapters and WebGL renderers that compute in software. */
export const SOFTWARE_RENDERER = /swiftshader|llvmpipe|software|basic render/i;
