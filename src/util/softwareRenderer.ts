/** Names of software renderers in the names of WebGPU adapters and WebGL renderers. */
export const SOFTWARE_RENDERER = /swiftshader|llvmpipe|software|basic render/i;
