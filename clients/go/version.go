package fencepost

// Version is the version of this module, which is that of the server it was released with.
const Version = "0.1.0"
